// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestCheckHTTP(t *testing.T) {
	for target, wrong := range map[string]string{
		"http://127.0.0.1":                     "",
		"http://127.0.0.1:8080/healthz?x=1":    "",
		"http://127.8.9.10:1/":                 "",
		"http://localhost:65535":               "",
		"http://[::1]:8080/":                   "",
		"http://[::1]/":                        "",
		"http://[::ffff:127.0.0.1]:80/":        "",
		"https://127.0.0.1/":                   "http://",
		"http:127.0.0.1":                       "http://",
		"127.0.0.1/healthz":                    "http://",
		"/healthz":                             "http://",
		"http:///healthz":                      "loopback",
		"http://:8080/":                        "loopback",
		"http://0.0.0.0:8080/":                 "loopback",
		"http://[::]:8080/":                    "loopback",
		"http://10.0.0.1/":                     "loopback",
		"http://169.254.169.254/":              "loopback",
		"http://127.1/":                        "loopback",
		"http://2130706433/":                   "loopback",
		"http://localhost.example/":            "loopback",
		"http://127.0.0.1.example/":            "loopback",
		"http://127.0.0.1:0/":                  "1 to 65535",
		"http://127.0.0.1:65536/":              "1 to 65535",
		"http://127.0.0.1:/":                   "1 to 65535",
		"http://[::1]:/":                       "1 to 65535",
		"http://me:secret@127.0.0.1/":          "no user",
		"http://127.0.0.1@metadata.internal/":  "no user",
		"http://127.0.0.1/#there":              "no fragment",
		"file:///healthz":                      "http://",
		"http://[fe80::1%25lo]:80/":            "loopback",
		"http://\u0661\u0662\u0667.0.0.1:8080": "loopback",
	} {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		switch err := CheckHTTP(u); {
		case wrong == "" && err != nil:
			t.Errorf("%s is refused: %v", target, err)
		case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("of %s it is said %v, not %q", target, err, wrong)
		}
	}
}

// Whatever a name leads to, nothing but the loopback interface is spoken to.
func TestDialerStaysInThePod(t *testing.T) {
	dialer := Dialer()
	dialer.Timeout = time.Second
	for _, address := range []string{"192.0.2.1:80", "[2001:db8::1]:80", "0.0.0.0:80"} {
		connection, err := dialer.DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = connection.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "not on the loopback interface") {
			t.Errorf("%s: %v", address, err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	connection, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = connection.Close()
}

// A proxy for other hosts must not come between. net/http spares 127.0.0.1 from proxies by itself, but not each other
// loopback name, so the transport is looked at.
func TestClientHasNoProxy(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client := Client(nil)
	if client.Transport.(*http.Transport).Proxy != nil {
		t.Error("there is a proxy")
	}
	response, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}
