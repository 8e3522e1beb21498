"""Runs one unmodified tus client in a process of its own, so that its memory can be measured.

    python tus_clients.py CLIENT ENDPOINT KEY FILE CHUNK RETRIES [checksum]

Prints one line of JSON: {"url": …, "peakMemory": bytes, "attempts": n}.
"""

import asyncio
import json
import resource
import sys
import time


def run_tuspy(endpoint, key, path, chunk, retries, checksum):
    from tusclient.client import TusClient

    client = TusClient(endpoint, headers={"Authorization": f"Bearer {key}"})
    uploader = client.uploader(
        path,
        chunk_size=chunk,
        metadata={"filename": "file.bin", "filetype": "application/octet-stream"},
        retries=retries,
        retry_delay=1,
        upload_checksum=checksum,
    )
    uploader.upload()
    return uploader.url, 1


def run_aiotus(endpoint, key, path, chunk, retries, checksum):
    import aiotus

    async def upload():
        with open(path, "rb") as file:
            return await aiotus.upload(
                endpoint,
                file,
                {"filename": b"file.bin", "flag": None},
                config=aiotus.RetryConfiguration(retry_attempts=retries + 1, max_retry_period_seconds=1),
                headers={"Authorization": f"Bearer {key}"},
                chunksize=chunk,
            )

    url = asyncio.run(upload())
    assert url is not None, "aiotus gave up"
    return str(url), 1


def run_tuspy2(endpoint, key, path, chunk, retries, checksum):
    """tus.py, which has no retries of its own: it is called again to resume, as its command line is."""
    import os

    import requests
    import tus

    headers = {"Authorization": f"Bearer {key}"}
    url = tus.create(endpoint, "file.bin", os.path.getsize(path), headers=headers)
    for attempt in range(1, retries + 2):
        with open(path, "rb") as file:
            try:
                tus.resume(file, url, chunk_size=chunk, headers=headers)
                return url, attempt
            except (requests.RequestException, tus.TusError):
                if attempt > retries:
                    raise
                time.sleep(0.5)
    raise AssertionError


CLIENTS = {"tuspy": run_tuspy, "aiotus": run_aiotus, "tus.py": run_tuspy2}


def main():
    name, endpoint, key, path, chunk, retries, *options = sys.argv[1:]
    url, attempts = CLIENTS[name](endpoint, key, path, int(chunk), int(retries), "checksum" in options)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"url": url, "peakMemory": peak, "attempts": attempts}))


if __name__ == "__main__":
    main()
