"""The clients of the fault lab.

concurrent_clients  clients that send requests while a fault happens
overload_clients    clients that disconnect when their patience ends
slow_connections    connections that send or receive slowly, by slowhttptest or by own sockets
raw_requests        requests that no HTTP client would send
"""
