package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/connect"
	"github.com/portcullis-mcp/portcullis/pkg/object"
)

// A cli is the command line.
type cli struct {
	Serve     serveCmd        `cmd:"" help:"Run the gateway on one port: MCP at /mcp, approvals at /admin, /healthz. Config, policy and state are in a folder."`
	Stdio     stdioCmd        `cmd:"" help:"Be an MCP server on standard input and output, in front of a gateway."`
	Init      initCmd         `cmd:"" help:"Write what a gateway begins with: a config, a policy that shows how, .gitignore lines for keys. It overwrites nothing."`
	Status    statusCmd       `cmd:"" help:"Print on one screen how a gateway is: what is wrong, what is in use, servers, tools, requests, stops."`
	Doctor    doctorCmd       `cmd:"" help:"Look for what is wrong with a gateway and around it, and say what to do about it; --probe asks each server."`
	Check     checkCmd        `cmd:"" help:"Check config and policy of a folder, and print what they deny in its tool catalog."`
	Push      pushCmd         `cmd:"" help:"Check config and policy of a folder, and put them into the bucket of a gateway on AWS."`
	Tools     toolsCmd        `cmd:"" help:"Print the tools, prompts and resources that are known: how each is locked, what changed, what was found."`
	Diff      diffCmd         `cmd:"" help:"Print what changed from the approved definition to the one of now. Exit code 3: it is not approved."`
	Approve   approveItemsCmd `cmd:"" help:"Approve definitions: agents may call a tool as long as its definition is this one."`
	Block     blockCmd        `cmd:"" help:"Refuse definitions for good; another definition waits as usual."`
	Unblock   unblockCmd      `cmd:"" help:"Take a block back; it approves nothing."`
	Disable   disableCmd      `cmd:"" help:"Lock tools until somebody enables them, whatever their definitions."`
	Enable    enableCmd       `cmd:"" help:"Take a disabling back; it approves nothing."`
	Undo      undoCmd         `cmd:"" help:"Take the last decision about one item back, for 10 minutes."`
	Stop      stopCmd         `cmd:"" help:"Stop a server, an agent or everything, at once; or print what is stopped."`
	Audit     auditCmd        `cmd:"" help:"Print who did what: what agents called and what people decided."`
	Requests  requestsCmd     `cmd:"" help:"Print what agents ask for, and decide about it."`
	Approvals approvalsCmd    `cmd:"" help:"Keep approvals as code, in approvals.lock.json; copy what people decided, take a copy back, and say which counts after approvals.db was lost."`

	Import  importCmd  `cmd:"" help:"Take over the MCP servers of a client: Claude Desktop, Claude Code, Cursor, VS Code, Codex, Gemini CLI, Windsurf."`
	Connect connectCmd `cmd:"" help:"Tell a client of the gateway: print the link, the command and the file, or write the file."`

	Sync  syncCmd  `cmd:"" help:"Ask every server for its tools now."`
	Token tokenCmd `cmd:"" help:"List, make and revoke agent tokens."`
	Try   tryCmd   `cmd:"" help:"Print what an agent finds for some words, and why."`
	Open  openCmd  `cmd:"" help:"Open the console of a gateway that runs in the browser."`

	Completion completionCmd `cmd:"" help:"Print a script that completes commands, flags and names in a shell."`
	Words      wordsCmd      `cmd:"" hidden:"" name:"complete-words" help:"What the scripts of completion ask."`
	Version    versionCmd    `cmd:"" help:"Print the version, the commit and the Go version."`

	PrintVersion kong.VersionFlag `name:"version" help:"Print the version."`
}

// An environment is what a command works with beside its flags.
type environment struct {
	getenv         func(string) string
	stdin          io.Reader
	stdout, stderr io.Writer
	terminal       bool                                        // a person reads stderr and types into stdin
	colour         bool                                        // stdout is a terminal that may show colours
	interrupted    <-chan struct{}                             // closed by Ctrl-C; nil: that does not happen
	browse         func(ctx context.Context, url string) error // starts a browser; nil: none can be started
	synced         func()                                      // called when the first sync of a gateway has ended; nil: nobody is told
	bucket         func(ctx context.Context, name string) (object.Store, error)
}

// run is the program; tests call it as main does.
func run(ctx context.Context, args []string, env *environment) error {
	bound := []kong.Option{
		kong.Name("portcullis"), kong.Vars{"user": osUser(), "version": "portcullis " + boot.LongVersion()},
		kong.Bind(env), kong.BindTo(ctx, (*context.Context)(nil)),
	}
	if command := parseServe(args, bound); command != nil {
		return command.Run()
	}
	done := false // --help or --version was answered
	parser, err := kong.New(&cli{}, append(bound,
		kong.Description("An MCP gateway that shows the tools which an agent may not use as locked, with the reason why."),
		listVars(), kong.Writers(env.stdout, env.stderr), kong.Exit(func(int) { done = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}))...)
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if done {
		return nil
	}
	if err != nil {
		return err
	}
	return command.Run()
}

// parseServe returns the command of a line that serve understands. It is nil for every other line, one that
// asks for help too. The grammar of all commands takes longer to build than most of what a start does.
func parseServe(args []string, bound []kong.Option) *kong.Context {
	if len(args) == 0 || args[0] != "serve" {
		return nil
	}
	var grammar struct {
		Serve serveCmd `cmd:""`
	}
	parser, err := kong.New(&grammar, append(bound, kong.NoDefaultHelp())...)
	if err != nil {
		return nil
	}
	command, err := parser.Parse(args)
	if err != nil {
		return nil // the grammar of all commands says what is wrong
	}
	return command
}

// The exit codes.
const (
	exitFault = 1 // something went wrong, or was refused
	exitUsage = 2 // the command line is not understood
	exitDrift = 3 // what was compared differs
)

// errDrift ends a command that compared two things which differ; it has printed how.
var errDrift = errors.New("it differs")

// exitCode says what went wrong, and returns the exit code.
func exitCode(err error, stderr io.Writer) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errDrift):
		return exitDrift
	}
	fmt.Fprintln(stderr, "portcullis:", err)
	if _, usage := errors.AsType[*kong.ParseError](err); usage {
		fmt.Fprintln(stderr, "portcullis --help lists the commands, portcullis COMMAND --help the flags of one")
		return exitUsage
	}
	return exitFault
}

// osUser is who runs the program, as the audit names him unless told otherwise.
func osUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "local"
}

// self returns what a person types to run this program again.
func self() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/portcullis"
	}
	return connect.Shell(os.Args[0])
}
