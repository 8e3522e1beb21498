"""Runs voduploadsdk, unmodified, as told on standard input; prints what it returned as the last line.

Its calls go to the gateway by the SDK's table of endpoints, and its reports, whose host is fixed, by `http_proxy`.
"""

import json
import sys
import time

from aliyunsdkcore.profile import region_provider
from voduploadsdk.AliyunVodUploader import AliyunVodUploader
from voduploadsdk.UploadAttachedMediaRequest import UploadAttachedMediaRequest
from voduploadsdk.UploadImageRequest import UploadImageRequest
from voduploadsdk.UploadVideoRequest import UploadVideoRequest


def main():
    wanted = json.load(sys.stdin)
    region_provider.modify_point("vod", "cn-shanghai", wanted["address"])
    uploader = AliyunVodUploader(*wanted["pair"])
    options = wanted["options"]
    wait = options.pop("wait", 0)
    if part := options.pop("part", None):
        uploader.setMultipartUpload(part, part)
    if wanted["kind"] == "video":
        request = UploadVideoRequest(wanted["path"], options.pop("title", None))
    elif wanted["kind"] == "image":
        request = UploadImageRequest(wanted["path"], options.pop("title", None))
    else:
        request = UploadAttachedMediaRequest(wanted["path"], options.pop("businessType"), options.pop("title", None))
    for name, value in options.items():
        # It has no setter for each of them.
        setattr(request, name, value)
    if wanted["kind"] == "video":
        result = uploader.uploadLocalVideo(request, lambda *_: time.sleep(wait))
    elif wanted["kind"] == "image":
        result = dict(zip(("ImageId", "ImageURL"), uploader.uploadImage(request), strict=True))
    else:
        result = uploader.uploadAttachedMedia(request)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
