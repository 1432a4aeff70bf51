"""The plain twin of processes: Tornado only, without any code of this project."""

import asyncio
from concurrent.futures import ProcessPoolExecutor

from tornado.web import Application, RequestHandler

PLAIN = True

HTTP_SERVER = "Tornado"


def serve(work, port, *, workers=4, backlog=1024):
    """Run the work in one of `workers` processes."""
    executor = ProcessPoolExecutor(workers)

    class Handler(RequestHandler):
        async def get(self):
            self.finish(await asyncio.get_running_loop().run_in_executor(executor, work))

        def compute_etag(self):
            pass

    async def main():
        application = Application([("/", Handler)], log_function=lambda handler: None)
        application.listen(port, "127.0.0.1", backlog=backlog)
        await asyncio.Event().wait()

    asyncio.run(main())
