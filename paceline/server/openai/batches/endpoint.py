"""/v1/files and /v1/batches, where the server has a folder for them (`--files-dir`)."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from paceline.cache.disk_files import take_lock
from paceline.errors import InvalidRequest, SettingsError
from paceline.server.common.fields import Lenient, Metadata, read_other, refuse_unsupported
from paceline.server.common.unknown_fields import note_unknown
from paceline.server.http.errors import REFUSED_METHODS, NotFound, invalid_fields
from paceline.server.http.identity import current
from paceline.server.http.openapi import TEXT, Answers, body_schema, object_of, returns
from paceline.server.openai.batches.internal import InternalCalls
from paceline.server.openai.batches.job import ENDPOINTS, Job
from paceline.server.openai.batches.runner import Batches
from paceline.server.openai.batches.store import FileStore, StoredFile, storing
from paceline.server.openai.responses.store import page
from paceline.server.state import AppState

PIECE = 1 << 20
MAX_JOBS = 1000  # of one key
Limit = Annotated[int, Query(ge=1, le=10_000)]
EXPIRY = "expires_after"
UPLOAD = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {"schema": object_of({"file": {**TEXT, "format": "binary"}, "purpose": TEXT})}
        },
    }
}

CONTENT: Answers = {200: {"content": {"application/octet-stream": {"schema": TEXT}}}}
UNSUPPORTED_IN_BATCHES = {"output_expires_after": (None,)}


class FileObject(BaseModel):
    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: str
    status: str


class FileList(BaseModel):
    object: Literal["list"]
    data: list[FileObject]
    has_more: bool


class DeletedFile(BaseModel):
    id: str
    object: Literal["file"]
    deleted: bool


class BatchObject(BaseModel):
    id: str
    object: Literal["batch"]
    endpoint: str
    input_file_id: str
    status: str


class BatchList(BaseModel):
    object: Literal["list"]
    data: list[BatchObject]
    has_more: bool


class Expiry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    anchor: Literal["created_at"]
    seconds: Annotated[int, Field(ge=3600, le=2_592_000)]


class BatchBody(Lenient):
    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: Metadata | None = None


class OpenedFile(FileResponse):
    """Read through its descriptor, so that it is whole also when the file is deleted meanwhile."""

    def __init__(self, file: StoredFile, content: BinaryIO) -> None:
        self.content = content
        descriptor = content.fileno()
        super().__init__(
            f"/dev/fd/{descriptor}",
            media_type="application/octet-stream",
            filename=file.filename,
            stat_result=os.fstat(descriptor),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.content:
            await super().__call__(scope, receive, send)


class BatchNotFound(NotFound):
    def __init__(self, id: str) -> None:
        super().__init__(f"The batch {id!r} is not here: it never was, is too old, or is not yours.")


def routes(state: AppState) -> APIRouter:
    folder = state.settings.files_dir
    if folder is None:
        return APIRouter()  # server/not_implemented says what is missing
    try:
        lock = _locked(folder)
        files = FileStore(folder / "files", int(state.settings.files_gb * 1e9), state.settings.files_days)
        batches = Batches(state, folder / "batches", files)
    except OSError as error:
        raise SettingsError(
            f"The files folder {folder} cannot be used: {error.strerror or error}. "
            "Choose a folder that this user can write to."
        ) from error

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(batches.run(InternalCalls(app, state.requests)))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            os.close(lock)

    router = APIRouter(lifespan=running)
    _add_files(state, router, files, batches)
    _add_batches(state, router, files, batches)
    _refuse_others(router)
    return router


def _locked(folder: Path) -> int:
    """The folder is this server's until the descriptor is closed: two would run each batch twice."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = take_lock(folder)
    if lock is None:
        raise SettingsError(
            f"The files folder {folder} is in use by another server. Choose another folder with --files-dir."
        )
    return lock


def _add_files(state: AppState, router: APIRouter, files: FileStore, batches: Batches) -> None:
    @router.post("/v1/files", openapi_extra=UPLOAD, responses=returns(FileObject))
    async def upload_file(request: Request) -> Response:
        with storing():
            form = await _form(request)
            try:
                note_unknown(state, request.url.path, form, _fields_of_upload(form))
                stored = await _uploaded(form, files)
            finally:
                await form.close()
        return JSONResponse(stored.described())

    @router.get("/v1/files", responses=returns(FileList))
    async def list_files(
        purpose: str | None = None,
        limit: Limit = 10_000,
        order: Literal["asc", "desc"] = "desc",
        after: str | None = None,
    ) -> Response:
        found = [file.described() for file in files.of(current().owner) if purpose in (None, file.purpose)]
        return JSONResponse(page(found if order == "desc" else found[::-1], limit, after))

    @router.get("/v1/files/{file_id}", responses=returns(FileObject))
    async def retrieve_file(file_id: str) -> Response:
        return JSONResponse(files.find(file_id, current().owner).described())

    @router.get("/v1/files/{file_id}/content", responses=CONTENT)
    async def file_content(file_id: str) -> Response:
        with storing():
            return OpenedFile(*await asyncio.to_thread(files.opened, file_id, current().owner))

    @router.delete("/v1/files/{file_id}", responses=returns(DeletedFile))
    async def delete_file(file_id: str) -> Response:
        file = files.find(file_id, current().owner)
        if batches.uses(file.id):
            raise InvalidRequest(f"The file {file.id} is the input of a batch that runs: cancel the batch first.")
        files.forget(file.id)  # without a wait since it was found: it is deleted, or a batch's input
        with storing():
            await asyncio.to_thread(files.remove, file)
        return JSONResponse({"id": file.id, "object": "file", "deleted": True})


def _add_batches(state: AppState, router: APIRouter, files: FileStore, batches: Batches) -> None:
    def find(id: str) -> Job:
        job = batches.jobs.get(id)
        if job is None or job.owner != current().owner:
            raise BatchNotFound(id)
        return job

    @router.post("/v1/batches", openapi_extra=body_schema(BatchBody), responses=returns(BatchObject))
    async def create_batch(request: Request) -> Response:
        body, fields = await read_other(state, request, BatchBody)
        refuse_unsupported(fields, UNSUPPORTED_IN_BATCHES)
        if body.endpoint not in ENDPOINTS:
            raise InvalidRequest.at("endpoint", f"is {body.endpoint!r}; it must be one of {', '.join(ENDPOINTS)}.")
        if body.completion_window != "24h":
            raise InvalidRequest.at("completion_window", f'is {body.completion_window!r}; it must be "24h".')
        files.find(body.input_file_id, current().owner, "input_file_id")
        files.check_room(0)
        if sum(job.owner == current().owner for job in batches.jobs.values()) >= MAX_JOBS:
            raise InvalidRequest(
                f"There are {MAX_JOBS} batches here already: the oldest goes {files.days:g} days after it was made.",
                code="too_many_batches",
            )
        job = Job(current().owner, body.endpoint, body.input_file_id, body.metadata)
        with storing():
            await batches.add(job)
        return JSONResponse(job.described())

    @router.get("/v1/batches", responses=returns(BatchList))
    async def list_batches(limit: Limit = 20, after: str | None = None) -> Response:
        mine = [job.described() for job in reversed(batches.jobs.values()) if job.owner == current().owner]
        return JSONResponse(page(mine, limit, after))

    @router.get("/v1/batches/{batch_id}", responses=returns(BatchObject))
    async def retrieve_batch(batch_id: str) -> Response:
        return JSONResponse(find(batch_id).described())

    @router.post("/v1/batches/{batch_id}/cancel", responses=returns(BatchObject))
    async def cancel_batch(batch_id: str) -> Response:
        job = find(batch_id)
        if job.ended and job.status != "cancelled":
            raise InvalidRequest(f"The batch {batch_id} is {job.status}: nothing is left to cancel.")
        with storing():
            await batches.cancel(job)
        return JSONResponse(job.described())


def _refuse_others(router: APIRouter) -> None:
    """In front of server/not_implemented, which would say that there is no folder for files."""
    for path in ("/v1/files", "/v1/batches"):
        _refuse(router, path, 405)
        _refuse(router, f"{path}/{{rest:path}}", 404)


def _refuse(router: APIRouter, path: str, status: int) -> None:
    @router.api_route(path, methods=REFUSED_METHODS, include_in_schema=False)
    async def refuse() -> Response:
        raise HTTPException(status)


async def _form(request: Request) -> FormData:
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise InvalidRequest("A file is sent as multipart/form-data, with the fields file and purpose.", field="file")
    try:
        return await request.form(max_files=1, max_fields=16)
    except HTTPException as error:
        raise InvalidRequest(f"The form cannot be read: {error.detail}", field="file") from None


async def _uploaded(form: FormData, files: FileStore) -> Any:
    upload, purpose = form.get("file"), form.get("purpose")
    if not isinstance(upload, UploadFile):
        raise InvalidRequest.at("file", "is missing.")
    if purpose != "batch":
        raise InvalidRequest.at("purpose", f"is {purpose!r}; here files are for batches only, so it must be batch.")
    seconds = _expiry(form)
    files.check_room(upload.size or 0)
    name = upload.filename or "upload"
    return await asyncio.to_thread(files.put, current().owner, name, "batch", _pieces(upload.file), seconds)


def _fields_of_upload(form: FormData) -> set[str]:
    return {"file", "purpose", EXPIRY, *(name for name in form if name.startswith(f"{EXPIRY}["))}


def _expiry(form: FormData) -> int | None:
    """From `expires_after[anchor]` and `expires_after[seconds]`, as OpenAI's clients send it, or from one JSON text."""
    given: dict[str, Any] = {name[len(EXPIRY) + 1 : -1]: form[name] for name in form if name.startswith(f"{EXPIRY}[")}
    text = form.get(EXPIRY)
    if text is None and not given:
        return None
    if text is None:
        seconds = given.get("seconds")
        if isinstance(seconds, str) and re.fullmatch("[0-9]{1,10}", seconds):
            given["seconds"] = int(seconds)
    elif given or not isinstance(text, str):
        raise InvalidRequest.at(EXPIRY, "must be one JSON object, or two fields.")
    try:
        return (Expiry.model_validate_json(text) if isinstance(text, str) else Expiry.model_validate(given)).seconds
    except ValidationError as error:
        raise InvalidRequest.at(
            EXPIRY, f'must be {{"anchor": "created_at", "seconds": 3600 to 2592000}}; {invalid_fields(error)}'
        ) from None


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while piece := file.read(PIECE):
        yield piece
