"""A handler of Tornado waits in a blocking call."""

import time

from tornado.web import Application, RequestHandler


class Quote(RequestHandler):
    def get(self, number: str) -> None:
        time.sleep(0.03)
        self.write({"quote": number})


app = Application([(r"/quote/(\d+)", Quote)])
