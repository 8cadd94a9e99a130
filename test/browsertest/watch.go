package browsertest

import (
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// watch records the faults of the pages that load later.
func (b *Tab) watch() {
	b.T.Helper()
	require.OK(b.T, chromedp.Listen(b.ctx, func(event any) {
		if f := b.fault(event); f != "" {
			b.mu.Lock()
			b.faults = append(b.faults, f+" (on "+b.at+")")
			b.mu.Unlock()
		}
		if _, ok := event.(*page.EventJavascriptDialogOpening); ok {
			// The page waits until the dialog is closed. The reader of events must not wait.
			go func() {
				_, _ = cdp.Call(b.ctx, chromedp.FromContext(b.ctx).Target, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
			}()
		}
	}))
}

// fault returns the fault that an event reports, or "". It runs while the browser waits.
func (b *Tab) fault(event any) string {
	switch e := event.(type) {
	case *page.EventFrameNavigated:
		if e.Frame.ParentID == "" {
			b.mu.Lock()
			b.at = e.Frame.URL
			b.mu.Unlock()
		}
	case *page.EventLoadEventFired:
		b.mu.Lock()
		b.loads++
		b.mu.Unlock()
	case *page.EventJavascriptDialogOpening:
		return fmt.Sprintf("the page opens a dialog (%s): %q", e.Type, e.Message)
	case *network.EventRequestWillBeSent:
		if !b.mayRequest(e.Request.URL) {
			return "the page sends a request to another origin: " + e.Request.URL
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			return fmt.Sprintf("status %d of %s", e.Response.Status, e.Response.URL)
		}
	case *network.EventLoadingFailed:
		if !e.Canceled && e.ErrorText != "net::ERR_ABORTED" { // a new page aborts requests
			return fmt.Sprintf("a request failed: %s %s", e.ErrorText, e.BlockedReason)
		}
	case *log.EventEntryAdded:
		// The network events above already cover errors of the network.
		if e.Entry.Source != log.EntrySourceNetwork && (e.Entry.Level == log.EntryLevelError || e.Entry.Source == log.EntrySourceSecurity) {
			return fmt.Sprintf("the browser complains (%s): %s", e.Entry.Source, e.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		return "a script failed: " + text
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeAssert {
			var said []string
			for _, arg := range e.Args {
				said = append(said, strings.Trim(string(arg.Value), `"`)+arg.Description)
			}
			return "a script complains: " + strings.Join(said, " ")
		}
	}
	return ""
}
