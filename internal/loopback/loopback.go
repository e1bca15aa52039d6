// SPDX-License-Identifier: Apache-2.0

// Package loopback is for what the sidecar asks of the other containers of its pod, and of nobody else.
package loopback

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
)

// CheckHost tells what is wrong with the host, and with the port where there is one, of a URL.
func CheckHost(u *url.URL) error {
	if host := u.Hostname(); host != "localhost" {
		address, err := netip.ParseAddr(host)
		if err != nil || !address.Unmap().IsLoopback() {
			return errors.New("the host must be on the loopback interface: 127.0.0.1, [::1] or localhost")
		}
	}
	if port := u.Port(); port != "" || u.Host != u.Hostname() && u.Host != "["+u.Hostname()+"]" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("the port must be a number from 1 to 65535")
		}
	}
	return nil
}

// CheckHTTP tells what is wrong with a URL that is asked over HTTP.
func CheckHTTP(u *url.URL) error {
	switch {
	case u.Scheme != "http" || u.Opaque != "":
		return errors.New("it must begin with http://")
	case u.User != nil || u.Fragment != "":
		return errors.New("it must have no user and no fragment")
	}
	return CheckHost(u)
}

// Dialer reaches the loopback interface alone, whatever a name leads to.
func Dialer() *net.Dialer {
	return &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		if to, err := netip.ParseAddrPort(address); err != nil || !to.Addr().Unmap().IsLoopback() {
			return fmt.Errorf("%s is not on the loopback interface", address)
		}
		return nil
	}}
}

// Client returns a client for the loopback interface: without a proxy, with a connection of its own for each request.
func Client(redirect func(next *http.Request, before []*http.Request) error) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DialContext: Dialer().DialContext, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: redirect,
	}
}
