"""The limit of the framework: the same requests and responses without any work or broker."""

from fastapi import FastAPI, Request, Response

ANSWER = b'{"run_id":"00000000-0000-7000-8000-000000000000","status":"PENDING"}'


def create_app() -> FastAPI:
    app = FastAPI()

    @app.post("/runs")
    async def submit(request: Request) -> Response:
        await request.body()
        return Response(ANSWER, media_type="application/json")

    @app.post("/executions/{execution_id}/nodes/{node_id}/progress", status_code=202)
    async def progress(request: Request) -> Response:
        await request.body()
        return Response(ANSWER, media_type="application/json", status_code=202)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    return app
