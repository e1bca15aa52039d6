// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
)

// problemAnswer is an RFC 9457 problem of the type about:blank: the title is the status code's.
type problemAnswer struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func problem(w http.ResponseWriter, code int, detail string) {
	write(w, code, "application/problem+json", encode(problemAnswer{"about:blank", http.StatusText(code), code, detail}))
}

// buffers are for answers in JSON: what /leader costs beside a bare handler is mostly garbage.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func writeJSON(w http.ResponseWriter, code int, answer any) {
	buffer := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(buffer)
	buffer.Reset()
	write(w, code, "application/json", encodeTo(buffer, answer))
}

func writeText(w http.ResponseWriter, code int, text string) {
	write(w, code, "text/plain; charset=utf-8", []byte(text))
}

// The values of headers that are always the same. net/http does not change them.
var (
	noStore = []string{"no-store"}
	noSniff = []string{"nosniff"}
)

func write(w http.ResponseWriter, code int, contentType string, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{contentType}
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may have gone
}

func encode(answer any) []byte { return encodeTo(new(bytes.Buffer), answer) }

// encodeTo returns the answer as JSON, in the buffer.
func encodeTo(buffer *bytes.Buffer, answer any) []byte {
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(answer); err != nil {
		panic("httpapi: an answer that JSON cannot hold: " + err.Error())
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
}
