"""Protection of a server, `protect=yes`: each file is one measure and can be read alone.

admission     refuse requests that would wait too long: 503
connections   refuse connections above a maximum: 503
waiting       hold requests until a worker can start them, so that they can still be dropped
disconnect    drop requests whose clients have disconnected
task_timeout  end or abandon tasks that run too long: 504
pool_guard    all of these for a server with workers
loop_guard    those that are possible for a task on the event loop
plan          which of them a server has
"""
