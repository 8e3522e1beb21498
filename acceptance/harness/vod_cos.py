"""cos-python-sdk-v5 with the credentials of one upload of Tencent Cloud VOD."""

import qcloud_cos
import requests

BUCKET = "vod-1250000000"
REGION = "ap-guangzhou"
# Of the object endpoint; each bucket has a host below it.
DOMAIN = f"cos.{REGION}.myqcloud.com"


def cos_client(applied, url, **options):
    """The SDK with its own settings. It sends to `url`, with the host name of the bucket (protocol, section 4.6).

    `applied`: the data of an ApplyUploadUGC.
    """
    certificate = applied["tempCertificate"]
    config = qcloud_cos.CosConfig(
        Region=applied["storageRegionV5"],
        SecretId=certificate["secretId"],
        SecretKey=certificate["secretKey"],
        Token=certificate["token"],
        Scheme="http",
        IP="127.0.0.1",
        Port=int(url.rsplit(":", 1)[1]),
    )
    session = requests.Session()
    session.trust_env = False
    return qcloud_cos.CosS3Client(config, session=session, **options)


def requests_of(client):
    """The requests that this client sends from now on: method, path with query, and status."""
    sent = []

    def record(answer, *_, **__):
        sent.append((answer.request.method, answer.request.path_url, answer.status_code))

    client._session.hooks["response"].append(record)
    return sent
