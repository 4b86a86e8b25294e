// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the trace processor of Perfetto's viewer without a browser.
 *
 *	node trace_processor.js DIRECTORY <requests >replies
 *
 * DIRECTORY holds the viewer's engine_bundle.js, which is made for a worker of a browser.
 * Requests and replies are streams of the messages of trace_processor.proto.
 */
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const directory = process.argv[2];

// Gives the engine its WebAssembly program, from the directory.
class Request {
	open(_method, url) {
		this.url = url;
	}
	send() {
		const whole = fs.readFileSync(path.join(directory, path.basename(this.url)));
		this.response = whole.buffer.slice(whole.byteOffset, whole.byteOffset + whole.length);
	}
}

// The engine refuses to run in node, and looks for these in a worker.
process.type = "renderer";
Object.assign(globalThis, {
	self: globalThis,
	WorkerGlobalScope: Request,
	XMLHttpRequest: Request,
	location: { href: `file://${directory}/` },
	importScripts: () => {},
});
vm.runInThisContext(fs.readFileSync(path.join(directory, "engine_bundle.js"), "utf8"));

const port = { postMessage: (bytes) => fs.writeSync(1, bytes) };
self.onmessage({ data: port });
// Later: the engine starts in a promise.
setTimeout(() => port.onmessage({ data: new Uint8Array(fs.readFileSync(0)) }));
