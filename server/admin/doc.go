// SPDX-License-Identifier: Apache-2.0

// Package admin lets other processes on the same machine have jobs done by the
// one that holds the database: HTTP/1.1 over a unix socket, and the client for
// it.
//
//	POST /admin/v1/jobs     {"kind":"…","params":{…}}
//	  answers application/x-ndjson, one object a line:
//	    {"event":{…}}       a progress.Event, the latest of its job
//	    {}                  a sign of life, every 15 s
//	    {"result":…}        the last line; in its place or beside it
//	    {"error":{"code":"…","message":"…","hint":"…"}}
//	GET  /admin/v1/jobs     {"jobs":[{…}]}: running ones and those of the last minute
//	GET  /admin/v1/version  {"version":"…"}
//
// A job belongs to its connection. When the client goes, or ends its half of
// it, the job is cancelled; on an end of that half the last line still comes.
// Requests that cannot be served get a status of 400 or above and {"error":…}.
package admin
