// What vod-js-sdk-v6 sends in a page, from its captured requests (protocol, sections 2 and 4). Not its code.
//
// The page runs a module whose `given` is the argument of harness/vod_page.py.

const PART = 1 << 20

const hex = bytes => [...new Uint8Array(bytes)].map(byte => byte.toString(16).padStart(2, "0")).join("")
const utf8 = text => new TextEncoder().encode(text)
const sha1 = async text => hex(await crypto.subtle.digest("SHA-1", utf8(text)))

async function hmac(key, text) {
    const algorithm = {name: "HMAC", hash: "SHA-1"}
    const imported = await crypto.subtle.importKey("raw", utf8(key), algorithm, false, ["sign"])
    return hex(await crypto.subtle.sign("HMAC", imported, utf8(text)))
}

const base64 = bytes => btoa(String.fromCharCode(...bytes))
const escaped = text => encodeURIComponent(text)
    .replace(/[!'()*]/g, found => "%" + found.charCodeAt().toString(16).toUpperCase())

// Requests

// Each request that the page sent: method, host, path with query, status.
const requests = []

function send(method, url, headers, body) {
    return new Promise((resolve, reject) => {
        const request = new XMLHttpRequest()
        request.open(method, url)
        for (const name in headers) request.setRequestHeader(name, headers[name])
        const entry = {method, host: new URL(url).host, path: url.slice(new URL(url).origin.length), status: 0}
        requests.push(entry)
        request.onload = () => {
            entry.status = request.status
            resolve(request)
        }
        request.onerror = () => reject(new Error("cors error"))
        request.send(body)
    })
}

const signature = async () => (await fetch("/signature", {method: "POST"})).text()

async function call(action, body) {
    const headers = {Accept: "application/json, text/plain, */*", "Content-Type": "application/json;charset=UTF-8"}
    const sent = JSON.stringify({signature: await signature(), ...body})
    const response = await send("POST", `https://vod2.qcloud.com/v3/index.php?Action=${action}`, headers, sent)
    const answer = JSON.parse(response.responseText)
    if (answer.code != 0) throw new Error(`${answer.code}: ${answer.message}`)
    return answer.data
}

function report(reqType, applied) {
    const body = JSON.stringify({version: "1.4.12", platform: 3000, reqType, errCode: 0, appId: applied.appId})
    const headers = {"Content-Type": "application/json;charset=UTF-8"}
    return send("POST", "https://vodreport.qcloud.com/ugcupload_new", headers, body)
}

// COS

class COS {
    constructor(applied) {
        this.applied = applied
        const bucket = `${applied.storageBucket}-${applied.storageAppId}`
        this.origin = `${location.protocol}//${bucket}.cos.${applied.storageRegionV5}.myqcloud.com`
    }

    // Signs neither the host nor the token.
    async authorization(method, path, query, signed) {
        const {secretId, secretKey, expiredTime} = this.applied.tempCertificate
        const time = `${this.applied.timestamp};${expiredTime}`
        const line = items => Object.keys(items).sort().map(name => `${name.toLowerCase()}=${escaped(items[name])}`)
        const list = items => Object.keys(items).sort().join(";").toLowerCase()
        const text = [method.toLowerCase(), path, line(query).join("&"), line(signed).join("&"), ""].join("\n")
        const toSign = ["sha1", time, await sha1(text), ""].join("\n")
        return [
            "q-sign-algorithm=sha1", `q-ak=${secretId}`, `q-sign-time=${time}`, `q-key-time=${time}`,
            `q-header-list=${list(signed)}`, `q-url-param-list=${list(query)}`,
            `q-signature=${await hmac(await hmac(secretKey, time), toSign)}`,
        ].join("&")
    }

    async send(method, path, {query = {}, action, headers = {}, signed = {}, body} = {}) {
        const authorization = await this.authorization(method, path, action ? {...query, [action]: ""} : query, signed)
        const token = this.applied.tempCertificate.token
        const fields = {...headers, Authorization: authorization, "x-cos-security-token": token}
        const items = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
        if (action) items.unshift(action)
        const target = this.origin + encodeURI(path) + (items.length ? "?" + items.join("&") : "")
        const response = await send(method, target, fields, body)
        if (response.status >= 300) throw new Error(response.responseText)
        return response
    }

    static document(response) {
        return new DOMParser().parseFromString(response.responseText, "application/xml")
    }

    async uploads(path) {
        const key = path.slice(1)
        const found = COS.document(await this.send("GET", "/", {action: "uploads", query: {prefix: key}}))
        return [...found.querySelectorAll("Upload")]
            .filter(one => one.querySelector("Key").textContent === key)
            .map(one => one.querySelector("UploadId").textContent)
    }

    async parts(path, uploadId) {
        const found = COS.document(await this.send("GET", path, {query: {uploadId}}))
        if (found.querySelector("IsTruncated").textContent !== "false") throw new Error("too many parts")
        const text = (part, name) => part.querySelector(name).textContent
        return [...found.querySelectorAll("Part")].map(part => ({
            number: Number(text(part, "PartNumber")), tag: text(part, "ETag"), size: Number(text(part, "Size")),
        }))
    }

    // Whether these parts are parts of this file.
    async fits(file, parts) {
        for (const {number, tag, size} of parts) {
            const bytes = new Uint8Array(await slice(file, number).arrayBuffer())
            if (bytes.length !== size || tag !== `"${hex(md5(bytes))}"`) return false
        }
        return true
    }

    async initiate(path, file) {
        const stored = {"x-cos-storage-class": "Standard"}
        const headers = {"Cache-Control": "", ...stored, ...(file.type ? {"Content-Type": file.type} : {})}
        const found = COS.document(await this.send("POST", path, {action: "uploads", headers, signed: stored}))
        return found.querySelector("UploadId").textContent
    }

    async put(path, uploadId, number, body) {
        const query = {partNumber: number, uploadId}
        const response = await this.send("PUT", path, {query, signed: {"content-length": body.size}, body})
        const tag = response.getResponseHeader("ETag")
        if (!tag) throw new Error('get ETag error, please add "ETag" to CORS ExposeHeader setting.')
        return tag
    }

    complete(path, uploadId, tags) {
        const parts = tags.map((tag, index) => "\n  <Part>"
            + `\n    <PartNumber>${index + 1}</PartNumber>`
            + `\n    <ETag>${tag.replaceAll('"', "&quot;")}</ETag>`
            + "\n  </Part>")
        const body = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
            + `\n<CompleteMultipartUpload>${parts.join("")}\n</CompleteMultipartUpload>`
        const signed = {"Content-MD5": base64(md5(utf8(body)))}
        const headers = {"Content-Type": "application/xml", ...signed}
        return this.send("POST", path, {query: {uploadId}, headers, signed, body})
    }
}

const slice = (file, number) => file.slice((number - 1) * PART, number * PART)

// Returns what was already there, and what was sent.
async function sendFile(cos, path, file, onPart) {
    let uploadId, known = []
    for (const id of (await cos.uploads(path)).reverse()) {
        const listed = await cos.parts(path, id)
        if (await cos.fits(file, listed)) {
            [uploadId, known] = [id, listed]
            break
        }
    }
    uploadId ??= await cos.initiate(path, file)
    const tags = Array(Math.ceil(file.size / PART)).fill()
    for (const part of known) tags[part.number - 1] = part.tag
    const left = tags.flatMap((tag, index) => tag ? [] : [index + 1])
    const sent = [...left]
    const work = async () => {
        while (left.length) {
            const number = left.shift()
            tags[number - 1] = await cos.put(path, uploadId, number, slice(file, number))
            await onPart?.(number)
        }
    }
    await Promise.all([work(), work(), work()])
    await cos.complete(path, uploadId, tags)
    return {known: known.map(part => part.number), sent, tags}
}

const split = name => [name.slice(0, name.lastIndexOf(".")), name.slice(name.lastIndexOf(".") + 1).toLowerCase()]

// The upload of a video, which goes on if the page has kept its session.
async function upload(video, cover, onPart) {
    const files = [video, cover].filter(file => file)
    const name = "webugc_" + await sha1(files.map(file => `${file.name}_${file.size};`).join(""))
    const [videoName, videoType] = split(video.name)
    const body = {videoName, videoType, videoSize: video.size}
    if (cover) [body.coverName, body.coverType, body.coverSize] = [...split(cover.name), cover.size]
    const vodSessionKey = localStorage.getItem(name)
    const applied = await call("ApplyUploadUGC", vodSessionKey ? {vodSessionKey} : body)
    localStorage.setItem(name, applied.vodSessionKey)
    const reports = [report(10001, applied)]
    const cos = new COS(applied)
    const [videoParts, coverParts] = await Promise.all([
        sendFile(cos, applied.video.storagePath, video, onPart),
        cover && sendFile(cos, applied.cover.storagePath, cover),
    ])
    reports.push(report(20001, applied))
    localStorage.removeItem(name)
    const done = await call("CommitUploadUGC", {vodSessionKey: applied.vodSessionKey})
    reports.push(report(10002, applied), report(40001, applied))
    await Promise.all(reports)
    return {done, applied, video: videoParts, cover: coverParts, requests, resumed: vodSessionKey !== null}
}
