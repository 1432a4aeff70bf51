"""The soak: faults and mixed load for minutes, and whether a server's resources grow.

plan       the settings of a soak, and the times that follow from its duration
run        the soak: start the servers, warm them up, inject faults, and read their processes
clients    the clients of a server: most behave well, some leave, stall or send invalid requests
readings   memory, descriptors and threads of a server's processes
growth     the growth of a server's memory, although its processes are killed and replaced
finding    the verdict for each server
soak_file  the files of a soak in results/
"""
