package login_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/login"
	"github.com/portcullis-mcp/portcullis/pkg/login/logintest"
)

func TestStore(t *testing.T) {
	logintest.Run(t, func(*testing.T) login.Store { return &logintest.Mem{} })
}
