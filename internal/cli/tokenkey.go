package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// A rotateTokensCmd is portcullis token rotate.
type rotateTokensCmd struct {
	askFlags
	Force bool `help:"Replace the key even if live tokens still use the previous key. These tokens become invalid immediately."`
}

// Run replaces the key.
func (c rotateTokensCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	path := filepath.Join(c.folder(), folder.TokenFile)
	old, err := secret.ReadFile(path)
	switch {
	case c.URL != "" || errors.Is(err, fs.ErrNotExist):
		return errors.New("token rotate: nothing was done: PORTCULLIS_TOKEN_KEY " +
			"has the gateway's key, or says where it is: replace the key there; docs/operate.md " +
			"has the steps")
	case err != nil:
		return fmt.Errorf("token rotate: nothing was done: %w", err)
	}
	page, err := g.Tokens(ctx)
	if err != nil {
		return err
	}
	inFile, err := token.NewKey(old.Current.Text.Reveal())
	if err != nil {
		return fmt.Errorf("token rotate: nothing was done: %s: %w", path, err)
	}
	k := page.Keys
	switch {
	// the gateway still uses another key, so its counts of tokens do not apply
	case k != nil && k.Current.ID != inFile.ID():
		return errors.New("token rotate: nothing was done: the gateway has not yet read the " +
			"new key in the file: wait a few seconds and run this again; if the error remains, " +
			"read the gateway's log")
	case k == nil:
		return errors.New("token rotate: nothing was done: the gateway cannot read its keys, so it cannot say which tokens would end; its log says why")
	case k.Previous != nil && k.Previous.Live > 0 && !c.Force:
		return fmt.Errorf("token rotate: nothing was done: %s still under the previous key, and "+
			"would end at once: portcullis token list shows which; replace them, or end them "+
			"with --force", are(k.Previous.Live, "live token"))
	}
	next := secret.Versions{Current: folder.NewTokenKey(), Previous: old.Current}
	if err := folder.PutFile(path, []byte(secret.FileText(next)), 0o600, store.Replace); err != nil {
		return fmt.Errorf("token rotate: nothing was done: %w", err)
	}
	return printWhole(env.stdout, func(w io.Writer) {
		fmt.Fprintf(w, "the key is replaced; %s now under the previous one; portcullis token "+
			"list shows them: replace them before the next rotation\n",
			are(k.Current.Live, "live token"))
	})
}

// printKeys prints how many tokens are under the previous key, and how many tokens are void.
func printKeys(w io.Writer, k *admin.TokenKeys) {
	if k == nil {
		return
	}
	if p := k.Previous; p != nil {
		until := "until the key is replaced again"
		if !p.Until.IsZero() {
			until = "until " + atMinute(p.Until) + ", or " + until
		}
		fmt.Fprintf(w, "the key was replaced: %s under the previous key, which the gateway "+
			"accepts %s\n", are(p.Live, "live token"), until)
	}
	if k.Void > 0 {
		fmt.Fprintf(w, "%s void: their key is gone; replace them\n", are(k.Void, "token"))
	}
}

// are returns a number with a noun and the verb "is" or "are".
func are(n int, noun string) string {
	if n == 1 {
		return text.Count(n, noun) + " is"
	}
	return text.Count(n, noun) + " are"
}
