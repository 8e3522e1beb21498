"""Runs one unmodified tus client in a process of its own, so that its memory can be measured.

    python tus_clients.py CLIENT ENDPOINT KEY FILE CHUNK RETRIES [checksum]

Prints one line of JSON: {"url": …, "peakMemory": bytes, "attempts": n}.
"""

import asyncio
import json
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


def run_aiotus_parallel(endpoint, key, path, chunk, retries, checksum):
    """Five parts at once, then one concatenation."""
    import io

    import aiotus

    async def upload():
        data = open(path, "rb").read()
        size = len(data) // 5 + 1
        return await aiotus.upload_multiple(
            endpoint,
            [io.BytesIO(data[begin : begin + size]) for begin in range(0, len(data), size)],
            {"filename": b"file.bin"},
            config=aiotus.RetryConfiguration(retry_attempts=retries + 1, max_retry_period_seconds=1),
            headers={"Authorization": f"Bearer {key}"},
            chunksize=chunk,
            parallel_uploads=5,
        )

    url = asyncio.run(upload())
    assert url is not None, "aiotus gave up"
    return str(url), 1


def run_tuspy2_pipe(endpoint, key, path, chunk, retries, checksum):
    """Unseekable input: the length is deferred and declared with an empty PATCH at the end."""
    import subprocess

    import tus

    headers = {"Authorization": f"Bearer {key}"}
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as process:
        url = tus.create(endpoint, "file.bin", None, headers=headers)
        tus.resume(process.stdout, url, chunk_size=chunk, headers=headers, offset=0)
    return url, 1


CLIENTS = {
    "tuspy": run_tuspy,
    "aiotus": run_aiotus,
    "tus.py": run_tuspy2,
    "aiotus in parallel": run_aiotus_parallel,
    "tus.py from a pipe": run_tuspy2_pipe,
}


def main():
    name, endpoint, key, path, chunk, retries, *options = sys.argv[1:]
    url, attempts = CLIENTS[name](endpoint, key, path, int(chunk), int(retries), "checksum" in options)
    print(json.dumps({"url": url, "peakMemory": peak_memory(), "attempts": attempts}))


def peak_memory():
    """Bytes, of this program alone: `ru_maxrss` counts what the process was before exec, too (getrusage(2))."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


if __name__ == "__main__":
    main()
