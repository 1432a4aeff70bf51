"""The fault lab: inject faults into real servers, and check what docs/reliability.rst promises.

row            what a row of the lab is: a fault, a promise, and how the fault is injected
lab            the rows, and a run of them
clients        clients that send requests while a fault happens
faulty_server  a server whose task the lab controls, observed from outside
rows/          one file for each row
served/        the task that the servers run
"""
