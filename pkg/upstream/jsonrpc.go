package upstream

import (
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// standard reports whether JSON-RPC or MCP defines a code.
func standard(code int64) bool {
	return code == mcp.CodeParse || code <= mcp.CodeInvalidRequest && code >= mcp.CodeInternal || modernCode(code)
}

// modernCode reports whether only a server of the stateless protocol sends a code.
func modernCode(code int64) bool { return code <= mcp.CodeHeaderMismatch && code >= mcp.CodeVersion }

// A reply is a JSON-RPC response. Result is a JSON object in its original bytes.
type reply struct {
	id     json.RawMessage
	result json.RawMessage
	err    *outcome.RPCError
	at     int // the position of id in the message
}

var (
	errNotReply   = brokenProtocol("the answer is not a response") // a notification or a request
	errOtherReply = brokenProtocol("the answer is to another request")
)

// parseReply reads one JSON-RPC message. It returns errNotReply for a message that is not a
// response, and a [protocolError] for input that is not JSON-RPC.
func parseReply(raw []byte) (reply, error) {
	var r reply
	var version, fault json.RawMessage
	isRequest := false
	o, err := splitForeign(raw)
	for _, m := range o {
		var to *json.RawMessage
		switch m.Name {
		case "jsonrpc":
			to = &version
		case "id":
			to = &r.id
			r.at = m.End() - len(m.Value)
		case "result":
			to = &r.result
		case "error":
			to = &fault
		case "method":
			isRequest = true
			continue
		default:
			continue
		}
		if *to != nil {
			err = errors.New("a key occurs twice")
		}
		*to = m.Value
	}
	switch {
	case err != nil:
		return reply{}, brokenProtocol("answer is not a JSON-RPC message: %v", err)
	case string(version) != `"2.0"`:
		return reply{}, brokenProtocol("answer is not JSON-RPC 2.0")
	case isRequest:
		return reply{}, errNotReply
	case (r.result == nil) == (fault == nil):
		return reply{}, brokenProtocol("answer must have either a result or an error")
	case fault != nil:
		r.err, err = parseRPCError(fault)
		return r, err
	case r.result[0] != '{':
		return reply{}, brokenProtocol("result is not an object")
	}
	return r, nil
}

func parseRPCError(raw json.RawMessage) (*outcome.RPCError, error) {
	e := new(outcome.RPCError)
	code := false
	o, err := rawjson.Split(raw, rawjson.Lenient)
	for _, m := range o {
		switch m.Name {
		case "code":
			code = true
			err = errors.Join(err, json.Unmarshal(m.Value, &e.Code))
		case "message":
			err = errors.Join(err, json.Unmarshal(m.Value, &e.Message))
		case "data":
			e.Data = m.Value
		}
	}
	if err != nil || !code {
		return nil, brokenProtocol("error object is not valid JSON-RPC")
	}
	return e, nil
}

// is reports whether the reply answers request id. An error may lack the id if the server could not
// read it.
func (r reply) is(id int64) bool {
	return string(r.id) == strconv.FormatInt(id, 10)
}

func (r reply) anonymous() bool { return r.err != nil && (r.id == nil || string(r.id) == "null") }

// splitForeign splits the text of a server. It accepts duplicate names and lone surrogates, because
// the content belongs to the server and the agent. The text must be UTF-8.
func splitForeign(raw []byte) (rawjson.Object, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("invalid UTF-8")
	}
	return rawjson.Split(raw, rawjson.Lenient)
}

// refusalOf writes the answer to a request of a server that belongs to no call. Only ping gets a
// result.
func refusalOf(id json.RawMessage, method string) []byte {
	body := rawjson.Object{{Name: "jsonrpc", Value: rawjson.Quote("2.0")}, {Name: "id", Value: id}}
	if method == mcp.MethodPing {
		body.Add("result", []byte("{}"))
	} else {
		const text = "no request is open that this could belong to"
		body.Add("error", errorObject(&mcp.Error{Code: mcp.CodeMethodNotFound, Message: text}))
	}
	return body.Bytes()
}

// request writes a JSON-RPC request; id 0 makes it a notification.
func request(id int64, method string, params rawjson.Object) []byte {
	b := make([]byte, 0, params.Size()+len(method)+64)
	b = append(b, `{"jsonrpc":"2.0",`...)
	if id != 0 {
		b = append(b, `"id":`...)
		b = strconv.AppendInt(b, id, 10)
		b = append(b, ',')
	}
	b = append(b, `"method":"`...)
	b = append(b, method...)
	b = append(b, `","params":`...)
	return append(params.Append(b), '}')
}
