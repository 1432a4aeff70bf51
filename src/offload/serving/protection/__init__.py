"""Protection of a server: each file is one measure and can be read alone.

Always:
deadlines     the times for a client to send its request and to receive its response
host_check    refuse requests for other hosts: 421
methods       refuse methods other than GET and HEAD: 405

With `protect=yes`:
admission     refuse requests that would wait too long: 503
connections   refuse connections above a maximum: 503
waiting       hold requests until a worker can start them, so that they can still be dropped
disconnect    drop requests whose clients have disconnected
task_timeout  end or abandon tasks that run too long: 504
expiry        one timer for many deadlines
pool_guard    all of these for a server with workers
loop_guard    those that are possible for a task on the event loop
guards        which of them a server has
"""
