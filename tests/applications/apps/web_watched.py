"""An application of Tornado whose module counts the requests of all handlers, as a tracer does."""

from typing import Any

from tornado.web import Application, RequestHandler

seen = 0
execute: Any = RequestHandler._execute


async def watched(self: RequestHandler, *arguments: Any, **named: Any) -> None:
    global seen
    seen += 1
    await execute(self, *arguments, **named)


RequestHandler._execute = watched  # type: ignore[assignment,method-assign]


class Quote(RequestHandler):
    def get(self, number: str) -> None:
        self.write(f"quote {number}")


class Seen(RequestHandler):
    def get(self) -> None:
        self.write(str(seen))


app = Application([(r"/quote/(\d+)", Quote), ("/seen", Seen)])
