package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// How long the program waits for whoever sends slowly, or nothing.
const (
	headerTime  = 10 * time.Second
	requestTime = 30 * time.Second // until the body is there; 4 MiB need 140 KB a second
	idleTime    = 2 * time.Minute  // between two requests of a connection
)

// newServer returns a server whose requests all end with base. There is no limit to how long
// an answer takes: a sync may take minutes.
func newServer(base context.Context, h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, IdleTimeout: idleTime,
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context { return base },
	}
}
