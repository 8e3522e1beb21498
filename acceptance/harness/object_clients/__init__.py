"""Third-party clients of object stores, unmodified, each behind the same few calls (`base.ObjectClient`)."""

from harness.object_clients.aliyun import OSS2, OSS2V4, OSSV2
from harness.object_clients.amazon import AWSCLI, Boto3, Minio, S3cmd
from harness.object_clients.tencent import COS, Coscmd

CLIENTS = {client.name: client for client in (Boto3, AWSCLI, S3cmd, Minio, OSS2, OSS2V4, OSSV2, COS, Coscmd)}
