"""Protection of a server against slow clients, foreign pages and overload.

limits        always: deadlines, sizes, methods (405) and hosts (421) of requests

With `protect=yes`:
admission     refuse requests that would wait too long: 503; drop those of clients that left
connections   refuse connections above a maximum: 503
guards        which of these a server has, and the timeout of a task: 504
"""
