"""The servers of the fault lab.

faulty_server  a server whose task the lab controls, observed from outside
mixed_server   a server that responds in many ways, and counts its responses
"""
