"""A Flask application, also as a factory."""

from flask import Flask, Response


def create_app() -> Flask:
    app = Flask(__name__)

    @app.get("/quote/<int:number>")
    def quote(number: int) -> str:
        return f"quote {number}"

    @app.get("/stream")
    def stream() -> Response:
        return Response(iter(["a", "b", "c"]))

    return app


app = create_app()
