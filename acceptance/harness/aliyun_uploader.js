// What VOD-JS 1.5.0 with OSS JS 5.3.1 does in a page (protocol, sections 5.2, 5.7 and 6.3). Not its code.
//
// The page runs a module whose `given` is the argument of harness/aliyun_page.py.

const PART = 1 << 20
const SMALL = 100 << 10
const AGENT = "aliyun-sdk-js/5.3.1 Chrome on Linux 64-bit"

const utf8 = text => new TextEncoder().encode(text)
const base64 = bytes => btoa(String.fromCharCode(...new Uint8Array(bytes)))
const decoded = text => JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(text), one => one.charCodeAt())))
const post = async (path, body = null) =>
    (await fetch(path, {method: "POST", body: JSON.stringify(body)})).json()

async function hmac(secret, text) {
    const algorithm = {name: "HMAC", hash: "SHA-1"}
    const key = await crypto.subtle.importKey("raw", utf8(secret), algorithm, false, ["sign"])
    return base64(await crypto.subtle.sign("HMAC", key, utf8(text)))
}

// Each request that the page sent: method, host, path with query, status (0: none that it may read), tag, code.
const requests = []

function send(method, url, headers, body) {
    return new Promise((resolve, reject) => {
        const request = new XMLHttpRequest()
        request.open(method, url)
        for (const name in headers) request.setRequestHeader(name, headers[name])
        const {host, origin} = new URL(url)
        const entry = {method, host, path: url.slice(origin.length), status: 0}
        requests.push(entry)
        request.onload = () => {
            const found = new DOMParser().parseFromString(request.responseText, "application/xml")
            const element = name => found.querySelector(name)?.textContent
            Object.assign(entry, {
                status: request.status, tag: request.getResponseHeader("ETag"), code: element("Code"),
                id: request.getResponseHeader("x-oss-request-id"),
            })
            if (request.status === 200) return resolve({request, element})
            const error = new Error(element("Message") ?? `status ${request.status}`)
            reject(Object.assign(error, {status: request.status, code: element("Code"), now: element("ServerTime")}))
        }
        request.onerror = () => reject(Object.assign(new Error("the request failed"), {status: -1}))
        request.send(body)
    })
}

class OSS {
    // Milliseconds that its own clock is behind.
    static skew = 0

    constructor(auth, address) {
        this.auth = auth
        this.address = address
    }

    url(query) {
        const {Endpoint, Bucket, FileName} = this.address
        const url = new URL(Endpoint)
        const isIP = /^[0-9.]+$/.test(url.hostname)
        const path = encodeURIComponent(FileName).replace(/%2F/g, "/")
        const items = Object.entries(query).map(([name, value]) => value === "" ? name : `${name}=${value}`)
        const origin = isIP ? `${url.origin}/${Bucket}` : `${url.protocol}//${Bucket}.${url.host}`
        return `${origin}/${path}` + (items.length ? "?" + items.join("&") : "")
    }

    async send(method, query, {headers = {}, body} = {}) {
        const own = {
            "x-oss-date": new Date(Date.now() + OSS.skew + (given.clock ?? 0)).toUTCString(),
            "x-oss-user-agent": AGENT,
            "x-oss-security-token": this.auth.SecurityToken,
        }
        const fields = {"content-type": "video/mp4", ...own, ...headers}
        const names = Object.keys(fields).filter(name => name.startsWith("x-oss-")).sort()
        const items = Object.entries(query).map(([name, value]) => value === "" ? name : `${name}=${value}`).sort()
        const resource = `/${this.address.Bucket}/${this.address.FileName}` + (items.length ? "?" + items.join("&") : "")
        const text = [
            method, fields["content-md5"] ?? "", fields["content-type"], fields["x-oss-date"],
            ...names.map(name => `${name}:${fields[name]}`), resource,
        ].join("\n")
        fields.authorization = `OSS ${this.auth.AccessKeyId}:${await hmac(this.auth.AccessKeySecret, text)}`
        try {
            return await send(method, this.url(query), fields, body)
        } catch (error) {
            // Without the time the SDK would send it again without end.
            if (error.code !== "RequestTimeTooSkewed" || !error.now) throw error
            OSS.skew = new Date(error.now) - Date.now() - (given.clock ?? 0)
            // It has read the file, and reads nothing more.
            return this.send(method, query, {headers, body: method === "PUT" ? new Blob() : body})
        }
    }
}

class Uploader {
    // `actions`: onUploadstarted(checkpoint), onPart(number), onUploadTokenExpired, onUploadSucceed, onUploadFailed(error).
    constructor(actions, {parallel = 5} = {}) {
        this.actions = actions
        this.parallel = parallel
        this.state = "Init"
        this.notification = {"x-oss-notification": given.userData ? btoa(given.userData) : ""}
        addEventListener("beforeunload", () => this.kept && this.keep("Stoped"))
    }

    keep(state) {
        this.kept.state = state
        localStorage.setItem(this.name, JSON.stringify(this.kept))
    }

    startUpload(file) {
        this.file = file
        this.name = `upload_${file.lastModified}_${file.name}_${file.size}`
        this.kept = JSON.parse(localStorage.getItem(this.name))
        // The page was killed.
        if (this.kept?.state === "Uploading") this.kept = null
        this.actions.onUploadstarted(this.kept)
    }

    // Returns whether both are usable.
    setUploadAuthAndAddress(auth, address, videoId) {
        const [found, place] = [decoded(auth), decoded(address)]
        const isGood = found.AccessKeyId && found.AccessKeySecret && found.SecurityToken && found.Expiration
        if (!isGood || !place.Endpoint || !place.Bucket || !place.FileName) return false
        if (this.kept?.videoId !== videoId) this.kept = null
        this.videoId = videoId
        this.oss = new OSS(found, place)
        this.run()
        return true
    }

    resumeUploadWithAuth(auth) {
        if (this.state !== "Expire") return false
        this.oss = new OSS(decoded(auth), this.oss.address)
        this.run()
        return true
    }

    async run() {
        this.state = "Start"
        try {
            await this.send()
        } catch (error) {
            if (["SecurityTokenExpired", "InvalidAccessKeyId", "SignatureDoesNotMatch"].includes(error.code)) {
                this.state = "Expire"
                return this.actions.onUploadTokenExpired()
            }
            if (error.code === "NoSuchUpload") this.forget()
            this.state = "Failure"
            return this.actions.onUploadFailed(error)
        }
        this.forget()
        this.state = "End"
        this.actions.onUploadSucceed()
    }

    forget() {
        this.kept = null
        localStorage.removeItem(this.name)
    }

    async send() {
        const headers = this.notification
        if (this.file.size < SMALL) return this.oss.send("PUT", {}, {headers, body: this.file})
        if (!this.kept) {
            const {element} = await this.oss.send("POST", {uploads: ""}, {headers})
            const {Endpoint: endpoint, Bucket: bucket, FileName: object} = this.oss.address
            this.kept = {videoId: this.videoId, endpoint, bucket, object, uploadId: element("UploadId"), doneParts: []}
        }
        const {uploadId, doneParts} = this.kept
        const done = new Set(doneParts.map(part => part.number))
        const left = Array.from({length: Math.ceil(this.file.size / PART)}, (_, index) => index + 1)
            .filter(number => !done.has(number))
        // It waits for parts to end, and there are none.
        if (this.parallel > 1 && !left.length) await new Promise(() => {})
        const errors = []
        const work = async () => {
            while (left.length && !errors.length) {
                const number = left.shift()
                await this.actions.onPart?.(number)
                try {
                    const body = this.file.slice((number - 1) * PART, number * PART)
                    const {request} = await this.oss.send("PUT", {partNumber: number, uploadId}, {body})
                    // What was under way when another part failed does not count.
                    if (errors.length) return
                    doneParts.push({number, etag: String(request.getResponseHeader("ETag") ?? undefined)})
                    this.keep("Uploading")
                    await this.actions.onUploadProgress?.(number)
                } catch (error) {
                    errors.push(error)
                }
            }
        }
        await Promise.all(Array.from({length: this.parallel}, work))
        if (errors.length) throw errors[0]
        const parts = doneParts.sort((one, other) => one.number - other.number).map(({number, etag}) =>
            `<Part>\n<PartNumber>${number}</PartNumber>\n<ETag>${etag}</ETag>\n</Part>\n`)
        const body = '<?xml version="1.0" encoding="UTF-8"?>\n'
            + `<CompleteMultipartUpload>\n${parts.join("")}</CompleteMultipartUpload>`
        await this.actions.onComplete?.()
        const fields = {"content-type": "application/xml", "content-md5": base64(md5(utf8(body)))}
        return this.oss.send("POST", {uploadId}, {headers: {...fields, ...headers}, body})
    }
}

// A page's whole upload with its own server, as the vendor's examples do it. Returns what happened.
function upload(file, {onPart, onUploadProgress, onComplete, parallel} = {}) {
    const events = []
    return new Promise(resolve => {
        const ended = (name, error) => {
            events.push(name)
            const {status, code} = error ?? {}
            resolve({
                events, requests, videoId: uploader.videoId, address: uploader.oss.address, status, code,
                resumed: events[0] === "resumed", kept: localStorage.length,
            })
        }
        const uploader = new Uploader({
            async onUploadstarted(kept) {
                events.push(kept ? "resumed" : "started")
                const begun = await post(kept ? "/refresh" : "/begin", {fileName: file.name, fileSize: file.size})
                uploader.setUploadAuthAndAddress(begun.UploadAuth, begun.UploadAddress, begun.VideoId)
            },
            async onUploadTokenExpired() {
                events.push("expired")
                uploader.resumeUploadWithAuth((await post("/refresh")).UploadAuth)
            },
            onUploadSucceed: () => ended("succeeded"),
            onUploadFailed: error => ended("failed", error),
            onPart, onUploadProgress, onComplete,
        }, {parallel})
        uploader.startUpload(file)
    })
}

// The same bytes each time, as a file that is the same for the checkpoint.
const bytes = size => new Uint8Array(size).map((_, index) => (index + (index >> 10)) % 251)
const video = (size, name = "测试 a+b.mp4") => new File([bytes(size)], name, {type: "video/mp4", lastModified: 1})
