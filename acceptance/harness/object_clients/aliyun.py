"""The two SDKs of Alibaba Cloud OSS for Python. Both compare CRC-64s by themselves."""

import alibabacloud_oss_v2
import oss2

from harness.object_clients.base import SMALL_PART, ObjectClient

REGION = "cn-shanghai"


class OSS2(ObjectClient):
    """oss2, signing as version 1 unless `auth_version` says more."""

    name = "oss2"
    format = "aliyun"
    dialect = "oss"
    part = SMALL_PART
    # The server may still say that the content ended too early.
    failures = (oss2.exceptions.RequestError, oss2.exceptions.ServerError)
    auth_version = "v1"

    def __init__(self, place):
        super().__init__(place)
        auth = oss2.StsAuth(*place.credentials, auth_version=self.auth_version)
        # It takes path style by itself if the host is an address.
        self.oss = oss2.Bucket(
            auth,
            place.url("oss"),
            self.bucket,
            is_cname=place.style == "cname",
            region=REGION,
            connect_timeout=60,
        )

    def put(self, path, key):
        self.oss.put_object_from_file(key, str(path))

    def upload(self, path, key):
        store = oss2.ResumableStore(root=str(self.place.folder))
        oss2.resumable_upload(
            self.oss, key, str(path), store=store, multipart_threshold=self.part, part_size=self.part, num_threads=2
        )

    def sizes(self, prefix):
        return {one.key: one.size for one in oss2.ObjectIteratorV2(self.oss, prefix=prefix, max_keys=1)}

    def download(self, key, path):
        store = oss2.ResumableDownloadStore(root=str(self.place.folder))
        oss2.resumable_download(
            self.oss, key, str(path), multiget_threshold=self.part, part_size=self.part, store=store
        )

    def delete(self, key):
        self.oss.delete_object(key)


class OSS2V4(OSS2):
    name = "oss2-v4"
    auth_version = "v4"


class OSSV2(ObjectClient):
    """alibabacloud-oss-v2."""

    name = "oss-v2"
    format = "aliyun"
    dialect = "oss"
    part = SMALL_PART
    failures = alibabacloud_oss_v2.uploader.UploadError

    def __init__(self, place):
        super().__init__(place)
        config = alibabacloud_oss_v2.config.load_default()
        config.credentials_provider = alibabacloud_oss_v2.credentials.StaticCredentialsProvider(*place.credentials)
        config.region = REGION
        config.endpoint = place.url("oss")
        config.use_cname = place.style == "cname"
        config.retry_max_attempts = 1
        config.readwrite_timeout = 60
        self.oss = alibabacloud_oss_v2.Client(config)

    def put(self, path, key):
        request = alibabacloud_oss_v2.PutObjectRequest(self.bucket, key)
        self.oss.put_object_from_file(request, str(path))

    def upload(self, path, key):
        self.oss.uploader(
            part_size=self.part,
            # It resumes after the first parts that are there without a gap.
            parallel_num=1,
            enable_checkpoint=True,
            checkpoint_dir=str(self.place.folder),
        ).upload_file(alibabacloud_oss_v2.PutObjectRequest(self.bucket, key), str(path))

    def sizes(self, prefix):
        request = alibabacloud_oss_v2.ListObjectsV2Request(self.bucket, prefix=prefix, max_keys=1)
        pages = self.oss.list_objects_v2_paginator().iter_page(request)
        return {one.key: one.size for page in pages for one in page.contents or []}

    def download(self, key, path):
        request = alibabacloud_oss_v2.GetObjectRequest(self.bucket, key)
        self.oss.downloader(part_size=self.part).download_file(request, str(path))

    def delete(self, key):
        self.oss.delete_object(alibabacloud_oss_v2.DeleteObjectRequest(self.bucket, key))
