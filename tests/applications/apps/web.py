"""An application of Tornado."""

import asyncio
import time
from typing import Any

from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler


class Quote(RequestHandler):
    async def get(self, number: str) -> None:
        self.write(f"quote {number}")


class Echo(RequestHandler):
    def post(self) -> None:
        self.write(self.request.body + self.request.headers["X-Token"].encode())


class Block(RequestHandler):
    def get(self) -> None:
        time.sleep(0.1)
        self.write("blocked")


class Wait(RequestHandler):
    async def get(self) -> None:
        await asyncio.sleep(0.5)
        self.write("waited")


class Later(RequestHandler):
    """Works on after its response."""

    async def get(self) -> None:
        await self.finish("now")
        await asyncio.sleep(0)
        time.sleep(0.1)


class Long(RequestHandler):
    def get(self) -> None:
        self.write(5_000_000 * "x")


class Fail(RequestHandler):
    def get(self) -> None:
        raise ValueError("no quote")


class Talk(WebSocketHandler):
    def on_message(self, message: Any) -> None:
        self.write_message(f"echo {message}")


app = Application(
    [
        (r"/quote/(\d+)", Quote),
        ("/echo", Echo),
        ("/block", Block),
        ("/wait", Wait),
        ("/later", Later),
        ("/long", Long),
        ("/fail", Fail),
        ("/ws", Talk),
    ],
    log_function=lambda _: None,
)


def create_app() -> Application:
    asyncio.get_running_loop()
    return app
