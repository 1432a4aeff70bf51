"""The plain twin of loop: Tornado only, without any code of this project."""

import asyncio
import inspect

from tornado.web import Application, RequestHandler

PLAIN = True

HTTP_SERVER = "Tornado"


def serve(work, port, *, backlog=1024):
    """Run the work on the event loop itself."""

    class Handler(RequestHandler):
        async def get(self):
            result = work()
            self.finish(await result if inspect.isawaitable(result) else result)

        def compute_etag(self):
            pass

    async def main():
        application = Application([("/", Handler)], log_function=lambda handler: None)
        application.listen(port, "127.0.0.1", backlog=backlog)
        await asyncio.Event().wait()

    asyncio.run(main())
