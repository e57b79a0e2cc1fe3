"""Stored files over HTTP, with byte ranges for video players."""

import re

from fastapi import Request
from fastapi.responses import FileResponse, Response, StreamingResponse

from arena_robot.server.blobs import Blobs

_RANGE = re.compile(r'bytes=(\d+)-(\d*)')


def file_response(request: Request, blobs: Blobs, key: str, media_type: str) -> Response:
    """Return the file of ``key``, or the requested range of it."""
    local = blobs.local_path(key)
    if local is not None and local.exists():
        return FileResponse(local, media_type=media_type)
    size = blobs.size(key)
    start, end = _asked(request.headers.get('range', ''), size)
    if start >= size > 0:
        return Response(status_code=416, headers={'Content-Range': f'bytes */{size}'})
    headers = {'Accept-Ranges': 'bytes', 'Content-Length': str(end - start)}
    part = (start, end) != (0, size)
    if part:
        headers['Content-Range'] = f'bytes {start}-{end - 1}/{size}'
    return StreamingResponse(blobs.read(key, start, end), 206 if part else 200, headers,
                             media_type)


def _asked(header: str, size: int) -> tuple[int, int]:
    found = _RANGE.fullmatch(header.strip())
    if not found:
        return 0, size
    start = int(found[1])
    end = min(int(found[2]) + 1, size) if found[2] else size
    return start, max(start, end)
