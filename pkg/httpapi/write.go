// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
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

func writeJSON(w http.ResponseWriter, code int, answer any) {
	write(w, code, "application/json", encode(answer))
}

func writeText(w http.ResponseWriter, code int, text string) {
	write(w, code, "text/plain; charset=utf-8", []byte(text))
}

func write(w http.ResponseWriter, code int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may have gone
}

func encode(answer any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(answer); err != nil {
		panic("httpapi: an answer that JSON cannot hold: " + err.Error())
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
}
