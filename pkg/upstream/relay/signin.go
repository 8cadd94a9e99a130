package relay

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// A SignIn supplies the tokens of a person, who may have to sign in first. It is safe for
// concurrent use.
type SignIn interface {
	// Token returns the token for a request, or an empty text if nobody is signed in. A
	// [*SignInError] says that the request cannot be sent now.
	Token(ctx context.Context) (secret.Text, error)

	// Refused reports that the gateway refused a request that had the token rejected, with HTTP
	// status 401 or 403. It returns another token for the same request, or an empty text if the
	// gateway's refusal is final. A [*SignInError] says that a person must act first.
	Refused(
		ctx context.Context, rejected secret.Text, status int, header http.Header,
	) (secret.Text, error)

	// Changed returns a channel that gets a value after each sign-in.
	Changed() <-chan struct{}
}

// A SignInError says that the gateway did not carry out a request, because a person must sign in
// first.
type SignInError struct {
	// Text returns the text for the client. It waits until the sign-in has an address.
	Text func(ctx context.Context) string
	Err  error // for the log; nil: the person has not signed in yet
}

// Error implements error.
func (e *SignInError) Error() string {
	if e.Err == nil {
		return "a person must sign in"
	}
	return e.Err.Error()
}

// signInTool is the one tool that the relay lists before the sign-in.
const signInTool = "sign_in"

// The texts of the relay before the sign-in.
const (
	signInHint = "This gateway requires a sign-in before it lists its tools. Call the tool " +
		"sign_in: " +
		"it returns the address that the user opens in a browser."
	signInList = `[{"name":"sign_in","description":"Returns the address at which the user signs ` +
		`in to the ` +
		`gateway. After the sign-in, the gateway lists its own tools.",` +
		`"inputSchema":{"type":"object","additionalProperties":false}}]`
	signedInText = "The sign-in is complete. List the tools again: the gateway now lists its " +
		"own tools."
)

// before has the members of the result with which the relay answers a list before the sign-in, and
// the notification that tells a client to request the list again.
var before = map[string]struct{ member, list, changed, filter string }{
	mcp.MethodListTools: {
		"tools", signInList, mcp.NotificationToolsChanged, "toolsListChanged",
	},
	mcp.MethodListPrompts: {
		"prompts", "[]", mcp.NotificationPromptsChanged, "promptsListChanged",
	},
	mcp.MethodListResources: {
		"resources", "[]", mcp.NotificationResourcesChanged, "resourcesListChanged",
	},
	mcp.MethodListTemplates: {
		"resourceTemplates", "[]", mcp.NotificationResourcesChanged, "resourcesListChanged",
	},
}

// answerUnsigned answers a request that needs a sign-in first. changed is closed at the next
// sign-in.
func (r *relay) answerUnsigned(
	ctx context.Context, m message, e *SignInError, changed <-chan struct{},
) {
	if e.Err != nil {
		r.o.Log.LogAttrs(ctx, slog.LevelWarn, "nobody is signed in", slog.Any("error", e.Err))
	}
	if m.id == nil {
		return // the gateway has no session that could use it
	}
	list, isList := before[m.method]
	switch {
	case m.method == mcp.MethodInitialize:
		r.result(m, r.helloUnsigned(m))
	case m.method == mcp.MethodDiscover:
		r.result(m, rawjson.Object{
			{Name: "ttlMs", Value: json.RawMessage("0")},
			{Name: "cacheScope", Value: json.RawMessage(`"private"`)},
			{Name: "supportedVersions", Value: encode(mcp.Offered())},
			{Name: "capabilities", Value: capabilities},
			{Name: "instructions", Value: rawjson.Quote(signInHint)},
		})
	case m.method == mcp.MethodPing:
		r.result(m, rawjson.Object{})
	case m.method == mcp.MethodListen:
		r.listenUnsigned(ctx, m, changed)
	case isList:
		r.noteList(m)
		result := rawjson.Object{{Name: list.member, Value: json.RawMessage(list.list)}}
		if m.modern {
			result.Add("ttlMs", []byte("0"))
			result.Add("cacheScope", []byte(`"private"`))
		}
		r.result(m, result)
	case m.method == mcp.MethodCallTool:
		isError := rawjson.Text(rawjson.Get(m.params, "name")) != signInTool
		r.result(m, toolText(e.Text(ctx), isError))
	default:
		r.refuse(m.id, mcp.CodeInternal, e.Text(ctx))
	}
}

// capabilities are the features that the gateway may have after the sign-in. A client cannot learn
// new ones during a session.
var capabilities = json.RawMessage(
	`{"prompts":{"listChanged":true},"resources":{"listChanged":true},` +
		`"tools":{"listChanged":true}}`,
)

// helloUnsigned returns the relay's own answer to a handshake. The relay begins the session with
// the gateway after the sign-in.
func (r *relay) helloUnsigned(m message) rawjson.Object {
	version := mcp.HandshakeVersion(rawjson.Text(rawjson.Get(m.params, "protocolVersion")))
	r.mu.Lock()
	r.session = session{version: version, hello: m, number: r.session.number + 1, unsigned: true}
	r.mu.Unlock()
	return rawjson.Object{
		{Name: "capabilities", Value: capabilities},
		{Name: "instructions", Value: rawjson.Quote(signInHint)},
		{Name: "protocolVersion", Value: rawjson.Quote(version)},
		{Name: "serverInfo", Value: r.serverInfo()},
	}
}

func (r *relay) serverInfo() json.RawMessage {
	return encode(map[string]string{"name": "portcullis", "version": r.o.Version})
}

// encode returns texts as JSON.
func encode(v any) json.RawMessage {
	data, _ := rawjson.Encode(v) // texts cannot fail
	return data
}

// result writes the relay's own result.
func (r *relay) result(m message, result rawjson.Object) {
	if m.modern {
		meta := rawjson.Object{{Name: mcp.MetaServerInfo, Value: r.serverInfo()}}
		if m.method == mcp.MethodListen {
			meta.Add(mcp.MetaSubscriptionID, m.id)
		}
		result.Add("resultType", []byte(`"`+mcp.ResultComplete+`"`))
		result.Add("_meta", meta.Bytes())
	}
	r.write(rawjson.Object{
		{Name: "jsonrpc", Value: rawjson.Quote("2.0")}, {Name: "id", Value: m.id},
		{Name: "result", Value: result.Bytes()},
	}.Bytes())
}

// notify writes a notification.
func (r *relay) notify(method string, params rawjson.Object) {
	o := rawjson.Object{
		{
			Name:  "jsonrpc",
			Value: rawjson.Quote("2.0"),
		}, {Name: "method", Value: rawjson.Quote(method)},
	}
	if params != nil {
		o.Add("params", params.Bytes())
	}
	r.write(o.Bytes())
}

// toolText returns the result of a call of a tool.
func toolText(text string, isError bool) rawjson.Object {
	part := rawjson.Object{
		{Name: "type", Value: rawjson.Quote("text")}, {Name: "text", Value: rawjson.Quote(text)},
	}
	return rawjson.Object{
		{Name: "content", Value: encode([]json.RawMessage{part.Bytes()})},
		{Name: "isError", Value: encode(isError)},
	}
}

// noteList remembers that the client has the relay's own answer to a list.
func (r *relay) noteList(m message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.method == mcp.MethodListTools {
		r.listedSignIn = true
	}
	r.stale[before[m.method].changed] = true
}

// answersSignIn reports whether the relay answered a call of its own tool after the sign-in, by a
// client that has not requested the tools since.
func (r *relay) answersSignIn(ctx context.Context, m message) bool {
	if m.method != mcp.MethodCallTool || rawjson.Text(rawjson.Get(m.params, "name")) != signInTool {
		return false
	}
	r.mu.Lock()
	listed := r.listedSignIn
	r.mu.Unlock()
	if !listed {
		return false
	}
	if token, err := r.token(ctx); err != nil || token.Reveal() == "" {
		return false
	}
	r.result(m, toolText(signedInText, false))
	return true
}

// listenUnsigned answers a subscription of a client that needs a sign-in. The subscription ends
// with the sign-in, after the notifications about it.
func (r *relay) listenUnsigned(ctx context.Context, m message, changed <-chan struct{}) {
	filter, accepted := rawjson.Get(m.params, "notifications"), rawjson.Object{}
	for _, method := range listMethods {
		if name := before[method].filter; string(rawjson.Get(filter, name)) == "true" {
			accepted.Add(name, []byte("true"))
		}
	}
	r.notify(mcp.NotificationAcknowledged, rawjson.Object{
		subscriptionMeta(m.id), {Name: "notifications", Value: accepted.Bytes()},
	})
	select {
	case <-changed:
		r.result(m, rawjson.Object{})
	case <-ctx.Done():
	}
}

func subscriptionMeta(id json.RawMessage) rawjson.Member {
	meta := rawjson.Object{{Name: mcp.MetaSubscriptionID, Value: id}}
	return rawjson.Member{Name: "_meta", Value: meta.Bytes()}
}

// listMethods are methods of before, one for each notification.
var listMethods = []string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources}

// watchSignIn reacts to sign-ins until the relay ends. It begins the session with the gateway, and
// tells the client which lists to request again.
func (r *relay) watchSignIn() {
	for {
		select {
		case <-r.o.SignIn.Changed():
		case <-r.ctx.Done():
			return
		}
		if s := r.current(); s.unsigned {
			if _, err := r.reopen(r.ctx, s); err != nil && r.ctx.Err() == nil {
				// the next request of the client tries again
				r.o.Log.LogAttrs(r.ctx, slog.LevelWarn, "session not begun after the sign-in",
					slog.Any("error", err))
			}
		}
		r.reportLists()
	}
}

// reportLists notifies the client of the lists that the relay has answered itself. A client of the
// stateless protocol gets a notification in each of its subscriptions that wants it.
func (r *relay) reportLists() {
	r.mu.Lock()
	stale, signedIn := r.stale, r.signedIn
	r.stale, r.signedIn = map[string]bool{}, make(chan struct{})
	var open []*call
	for _, c := range r.open {
		if c.filter != nil {
			open = append(open, c)
		}
	}
	handshake := r.session.hello.line != nil
	r.mu.Unlock()
	for _, method := range listMethods {
		list := before[method]
		if !stale[list.changed] {
			continue
		}
		if handshake {
			r.notify(list.changed, nil)
		}
		for _, c := range open {
			if string(rawjson.Get(c.filter, list.filter)) == "true" {
				r.notify(list.changed, rawjson.Object{subscriptionMeta(c.id)})
			}
		}
	}
	close(signedIn)
}

// nextSignIn returns a channel that is closed at the next sign-in.
func (r *relay) nextSignIn() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.signedIn
}

// token returns the token for a request.
func (r *relay) token(ctx context.Context) (secret.Text, error) {
	if r.o.SignIn == nil {
		return r.o.Token, nil
	}
	return r.o.SignIn.Token(ctx)
}

// unsigned returns the [*SignInError] in err, if there is one.
func unsigned(err error) (*SignInError, bool) { return errors.AsType[*SignInError](err) }
