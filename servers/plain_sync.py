"""The plain twin of sync: http.server only, without any code of this project."""

from http.server import BaseHTTPRequestHandler, HTTPServer

PLAIN = True

HTTP_SERVER = "http.server with HTTP/1.0"


def serve(work, port, *, backlog=5):
    """Accept, run the work and respond in one thread."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = work()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Server(HTTPServer):
        request_queue_size = backlog

    Server(("127.0.0.1", port), Handler).serve_forever()
