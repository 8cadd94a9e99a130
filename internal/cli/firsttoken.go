package cli

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
)

const (
	noAdmin     = "Nobody can sign in at /admin or make a token: no live agent token is an admin's, and PORTCULLIS_BOOTSTRAP_SHA256 is not set."
	noAdminCode = "no_admin"
)

// lacksAdmin reports whether callers use agent tokens, but no token and no setting gives access to
// /admin. It returns false if the tokens are unreadable, because another message reports that.
func lacksAdmin(ctx context.Context, a boot.Access, tokens *token.Store) bool {
	others := a.Takes(identity.WayJWT) || a.ClientID != "" || a.Bootstrap != "" || len(a.IAMAdmins) > 0
	if !a.Takes(identity.WayToken) || others {
		return false
	}
	all, err := tokens.Tokens(ctx)
	for _, t := range all {
		if t.Admin && t.Live(time.Now()) {
			return false
		}
	}
	return err == nil
}

// firstToken returns the command line that creates an admin's token in a folder without a running
// gateway.
func firstToken(a boot.Access, dir string) string {
	return "PORTCULLIS_AUTH=" + strings.Join(a.Ways, ",") + " " + self() +
		" token make --name admin --admin --dir " + connect.Shell(dir)
}

// admins checks whether anybody can use /admin: at the running gateway, or with the settings of
// this environment.
func (x *examination) admins(ctx context.Context, a boot.Access) {
	dir := x.cmd.folder()
	s, runs, err := folder.Running(dir)
	lacks := runs && s.NoAdmin
	if !runs && err == nil {
		file, err := bolt.View(filepath.Join(dir, folder.ApprovalsFile), &store.Options{LockWait: folder.Glance})
		if err != nil {
			return // another finding has this error
		}
		lacks = lacksAdmin(ctx, a, token.NewStore(file))
		_ = file.Close() // it was only read
	}
	if lacks {
		if !a.Takes(identity.WayToken) {
			a.Ways = []string{identity.WayToken} // the running gateway accepts agent tokens
		}
		x.find(noAdminCode, dir, noAdmin, firstToken(a, dir))
	}
}
