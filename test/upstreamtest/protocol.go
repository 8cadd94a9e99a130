package upstreamtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const modernVersion = "2026-07-28"

// answer serves one request of either era.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	req, _ := r.Context().Value(requestKey{}).(*Request)
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	switch {
	case token != "" && r.Header.Get("Authorization") != "Bearer "+token:
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		http.Error(w, "unauthorized", http.StatusUnauthorized)
	case r.Method == http.MethodDelete && s.o.Sessions:
		s.endSession(w, r)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	case !strings.Contains(r.Header.Get("Accept"), "application/json") || !strings.Contains(r.Header.Get("Accept"), "text/event-stream"):
		http.Error(w, "Accept must name application/json and text/event-stream", http.StatusNotAcceptable)
	case r.Header.Get("Content-Type") != "application/json":
		http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
	case req != nil && req.Method == "" && s.ofSession(r) && s.takeAnswer(req.Body):
		w.WriteHeader(http.StatusAccepted)
	case req == nil || req.Method == "":
		writeError(w, http.StatusBadRequest, nil, &RPCError{Code: -32700, Message: "parse error"})
	default:
		version := metaString(req.Params, "io.modelcontextprotocol/protocolVersion")
		if s.o.Era != Legacy && (version != "" || s.o.Era == Modern) {
			s.modern(w, r, req, version)
		} else {
			s.legacy(w, r, req)
		}
	}
}

// ofSession reports whether a request bears what those of the handshake era must.
func (s *Server) ofSession(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.Header.Get("Mcp-Protocol-Version") != "" && (!s.o.Sessions || s.sessions[r.Header.Get("Mcp-Session-Id")])
}

// modern serves a request that describes itself.
func (s *Server) modern(w http.ResponseWriter, r *http.Request, req *Request, version string) {
	if e := checkModern(r, req, version); e != nil {
		writeError(w, http.StatusBadRequest, req.ID, e)
		return
	}
	switch req.Method {
	case "server/discover":
		s.result(w, req, fmt.Appendf(nil, `{"resultType":"complete","supportedVersions":%s,"capabilities":%s,"instructions":%s,"ttlMs":0,"cacheScope":"private"}`,
			mustJSON(s.supported()), s.capabilities(), mustJSON(s.o.Instructions)))
	case "tools/list":
		s.listTools(w, req, true)
	case "tools/call":
		s.callTool(w, r, req, true)
	default:
		writeError(w, http.StatusNotFound, req.ID, &RPCError{Code: -32601, Message: "method not found"})
	}
}

// checkModern holds the headers and the metadata against the specification.
func checkModern(r *http.Request, req *Request, version string) *RPCError {
	mismatch := func(what string) *RPCError {
		return &RPCError{Code: -32020, Message: "header mismatch: " + what}
	}
	name := r.Header.Get("Mcp-Name")
	if enc, ok := strings.CutPrefix(name, "=?base64?"); ok {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(enc, "?="))
		if err != nil {
			return mismatch("Mcp-Name")
		}
		name = string(raw)
	}
	switch {
	case r.Header.Get("Mcp-Protocol-Version") == "", r.Header.Get("Mcp-Protocol-Version") != version:
		return mismatch("MCP-Protocol-Version")
	case version != modernVersion:
		return &RPCError{Code: -32022, Message: "unsupported protocol version",
			Data: fmt.Appendf(nil, `{"supported":[%q],"requested":%q}`, modernVersion, version)}
	case r.Header.Get("Mcp-Method") != req.Method:
		return mismatch("Mcp-Method")
	case req.Method == "tools/call" && name != req.Tool:
		return mismatch("Mcp-Name")
	case metaRaw(req.Params, "io.modelcontextprotocol/clientCapabilities") == nil:
		return &RPCError{Code: -32602, Message: "missing clientCapabilities"}
	}
	return nil
}

func (s *Server) supported() []string {
	if s.o.Era == Modern {
		return []string{modernVersion}
	}
	return append([]string{modernVersion}, s.o.Versions...)
}

func (s *Server) capabilities() string {
	if s.o.NoTools {
		return `{}`
	}
	return `{"tools":{}}`
}

// legacy serves a request of the handshake era.
func (s *Server) legacy(w http.ResponseWriter, r *http.Request, req *Request) {
	if req.Method == "initialize" {
		s.initialize(w, req)
		return
	}
	if s.o.Sessions {
		id := r.Header.Get("Mcp-Session-Id")
		s.mu.Lock()
		known := s.sessions[id]
		s.mu.Unlock()
		switch {
		case id == "":
			writeError(w, http.StatusBadRequest, nil, &RPCError{Code: -32000, Message: "Bad Request: no session id"})
			return
		case !known:
			writeError(w, http.StatusNotFound, nil, &RPCError{Code: -32001, Message: "session not found"})
			return
		}
	}
	switch {
	case req.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case req.Method == "tools/list" && !s.o.NoTools:
		s.listTools(w, req, false)
	case req.Method == "tools/call":
		s.callTool(w, r, req, false)
	default:
		writeError(w, http.StatusOK, req.ID, &RPCError{Code: -32601, Message: "method not found"})
	}
}

func (s *Server) initialize(w http.ResponseWriter, req *Request) {
	var p struct {
		Version string `json:"protocolVersion"`
	}
	if json.Unmarshal(req.Params, &p) != nil || p.Version == "" {
		writeError(w, http.StatusOK, req.ID, &RPCError{Code: -32602, Message: "invalid params"})
		return
	}
	if !slices.Contains(s.o.Versions, p.Version) {
		p.Version = s.o.Versions[0]
	}
	if s.o.Sessions {
		s.mu.Lock()
		s.nextID++
		id := "session-" + strconv.Itoa(s.nextID)
		s.sessions[id] = true
		s.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", id)
	}
	s.result(w, req, fmt.Appendf(nil, `{"protocolVersion":%s,"capabilities":%s,"serverInfo":{"name":"upstreamtest","version":"1"},"instructions":%s}`,
		mustJSON(p.Version), s.capabilities(), mustJSON(s.o.Instructions)))
}

// endSession answers DELETE.
func (s *Server) endSession(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	s.mu.Lock()
	known := s.sessions[id]
	delete(s.sessions, id)
	s.mu.Unlock()
	if !known {
		writeError(w, http.StatusNotFound, nil, &RPCError{Code: -32001, Message: "session not found"})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// listTools serves one page; a cursor is the number of its first tool.
func (s *Server) listTools(w http.ResponseWriter, req *Request, modern bool) {
	if s.o.NoTools {
		writeError(w, http.StatusNotFound, req.ID, &RPCError{Code: -32601, Message: "method not found"})
		return
	}
	var p struct {
		Cursor string `json:"cursor"`
	}
	_ = json.Unmarshal(req.Params, &p) // no params: the first page
	s.mu.Lock()
	tools := s.tools
	s.mu.Unlock()
	from := 0
	if p.Cursor != "" {
		var err error
		if from, err = strconv.Atoi(strings.TrimPrefix(p.Cursor, "at ")); err != nil || from < 0 || from > len(tools) {
			writeError(w, http.StatusOK, req.ID, &RPCError{Code: -32602, Message: "invalid cursor"})
			return
		}
	}
	to := len(tools)
	if s.o.PageSize > 0 {
		to = min(to, from+s.o.PageSize)
	}
	var b bytes.Buffer
	b.WriteString(`{"tools":[`)
	b.Write(bytes.Join(raws(tools[from:to]), []byte(",")))
	b.WriteByte(']')
	if to < len(tools) {
		fmt.Fprintf(&b, `,"nextCursor":"at %d"`, to)
	}
	if modern {
		b.WriteString(`,"resultType":"complete","ttlMs":0,"cacheScope":"private"`)
	}
	b.WriteByte('}')
	s.result(w, req, b.Bytes())
}

func raws(m []json.RawMessage) [][]byte {
	out := make([][]byte, len(m))
	for i := range m {
		out[i] = m[i]
	}
	return out
}

func (s *Server) callTool(w http.ResponseWriter, r *http.Request, req *Request, modern bool) {
	var p struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	_ = json.Unmarshal(req.Params, &p) // no arguments
	result, err := s.o.Call(r.Context(), Call{req.Tool, p.Arguments, req.Params, r.Header, modern})
	if err == nil {
		s.result(w, req, result)
		return
	}
	if r.Context().Err() != nil {
		s.mu.Lock()
		s.cancelled++
		s.mu.Unlock()
		return
	}
	status := http.StatusOK
	e := asRPCError(err)
	if modern && (e.Code == -32602 || e.Code == -32021) {
		status = http.StatusBadRequest
	}
	writeError(w, status, req.ID, e)
}

// result writes a reply, as JSON or as an event stream with a notification before it.
func (s *Server) result(w http.ResponseWriter, req *Request, result json.RawMessage) {
	msg := slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), req.ID, []byte(`,"result":`), result, []byte(`}`))
	if !s.o.SSE {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(msg) // a client that is gone reads no answer
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, ": hello\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n")
	fmt.Fprintf(w, "event: message\nid: 1\ndata: %s\n\n", bytes.ReplaceAll(msg, []byte("\n"), []byte("\ndata: ")))
}

// writeError writes a JSON-RPC error; a nil id is written as null.
func writeError(w http.ResponseWriter, status int, id json.RawMessage, e *RPCError) {
	if id == nil {
		id = json.RawMessage("null")
	}
	data := ""
	if e.Data != nil {
		data = `,"data":` + string(e.Data)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s%s}}`, id, e.Code, mustJSON(e.Message), data)
}

// metaRaw returns a member of the params' _meta, nil if absent.
func metaRaw(params json.RawMessage, key string) json.RawMessage {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(params, &p) != nil {
		return nil
	}
	return p.Meta[key]
}

func metaString(params json.RawMessage, key string) string {
	var s string
	_ = json.Unmarshal(metaRaw(params, key), &s) // "" if it is no string
	return s
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and lists of them always marshal
	}
	return b
}
