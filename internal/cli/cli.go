package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
)

// A cli is the command line.
type cli struct {
	Serve     serveCmd        `cmd:"" help:"Run the gateway over a folder that has its config, policy and state."`
	Stdio     stdioCmd        `cmd:"" help:"Serve MCP on standard input and output, in front of a gateway."`
	Init      initCmd         `cmd:"" help:"Write a first config, a first policy, and .gitignore lines for keys."`
	Status    statusCmd       `cmd:"" reads:"status" help:"Print the state of a gateway on one screen."`
	Doctor    doctorCmd       `cmd:"" help:"Find what is wrong with a gateway and around it."`
	Check     checkCmd        `cmd:"" help:"Check the config and the policy of a folder."`
	Tools     toolsCmd        `cmd:"" reads:"tools" help:"Print the tools, prompts and resources that the gateway knows."`
	Diff      diffCmd         `cmd:"" reads:"diff" help:"Print how a definition differs from the approved one."`
	Approve   approveItemsCmd `cmd:"" changes:"approve" help:"Approve definitions."`
	Block     blockCmd        `cmd:"" changes:"block" help:"Block definitions."`
	Unblock   unblockCmd      `cmd:"" changes:"unblock" help:"Remove a block from definitions."`
	Disable   disableCmd      `cmd:"" changes:"disable" help:"Lock items, even if their definitions change."`
	Enable    enableCmd       `cmd:"" changes:"enable" help:"Unlock items that somebody disabled."`
	Undo      undoCmd         `cmd:"" changes:"undo" help:"Undo the last decision about one item."`
	Servers   serversCmd      `cmd:"" help:"Print and change the servers, and sign the gateway in to them."`
	Stop      stopCmd         `cmd:"" help:"Stop a server, an agent or everything."`
	Call      callCmd         `cmd:"" help:"Call a tool, with the checks of an agent's call."`
	Audit     auditCmd        `cmd:"" help:"Print what agents called and what people decided."`
	Requests  requestsCmd     `cmd:"" help:"Print the requests of agents, and decide about them."`
	Approvals approvalsCmd    `cmd:"" help:"Keep approvals as code, or accept them after a loss."`
	Backup    backupCmd       `cmd:"" changes:"backup" help:"Back up the decisions of people."`
	Restore   restoreCmd      `cmd:"" help:"Restore the decisions of people from a copy, or from the tool catalog."`

	Import  importCmd  `cmd:"" help:"Copy the MCP servers of a client into the gateway's config."`
	Connect connectCmd `cmd:"" help:"Connect a client to the gateway."`

	Sync  syncCmd  `cmd:"" help:"Ask every server for its tools."`
	Token tokenCmd `cmd:"" help:"List, make and revoke agent tokens."`
	Try   tryCmd   `cmd:"" help:"Print the result of an agent's search, with the reasons."`
	Open  openCmd  `cmd:"" help:"Open the console in the browser."`

	AWS       awsCmd  `cmd:"" name:"aws" help:"Deploy the files of a gateway on AWS."`
	EarlyPush pushCmd `cmd:"" hidden:"" name:"push"`

	Completion completionCmd `cmd:"" help:"Print a completion script for a shell."`
	Words      wordsCmd      `cmd:"" hidden:"" name:"complete-words" help:"Answers for the completion scripts."`
	Version    versionCmd    `cmd:"" help:"Print the version, the commit and the Go version."`

	PrintVersion kong.VersionFlag `name:"version" help:"Print the version."`
}

// An environment holds the inputs and outputs of a command, except its flags.
type environment struct {
	getenv         func(string) string
	stdin          io.Reader
	stdout, stderr io.Writer
	// a person reads stderr and types into stdin
	terminal    bool
	colour      bool            // stdout is a terminal that may show colours
	interrupted <-chan struct{} // closed by Ctrl-C; nil: never
	// starts a browser; nil: impossible here
	browse func(ctx context.Context, url string) error
	// of the served gateway; nil: it does not run for a client
	client *clientGateway
	bucket func(ctx context.Context, name string) (object.Store, error)
	// folder of the user's configuration files; nil: none
	ownConfig func() (string, error)
	// how often a served gateway checks config and policy for changes, and a command with -f asks
	// for more; 0: lookEvery and followEvery
	look time.Duration
}

// run is the program; main and tests call it.
func run(ctx context.Context, args []string, env *environment) error {
	bound := []kong.Option{
		kong.Name("portcullis"), kong.Vars{"user": osUser(), "version": "portcullis " + boot.LongVersion()},
		kong.Bind(env), kong.BindTo(ctx, (*context.Context)(nil)),
	}
	if command := parseServe(args, bound); command != nil {
		return command.Run()
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	done := false // the program has printed the help or the version
	parser, err := kong.New(&cli{}, append(bound,
		kong.Description("An MCP gateway that shows the tools which an agent may not use as locked, with the reason why."),
		grammarOptions(), kong.Writers(env.stdout, env.stderr), kong.Exit(func(int) { done = true }),
		kong.Resolvers(kong.ResolverFunc(env.resolve)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Help(env.printHelp))...)
	if err != nil {
		return err
	}
	command, err := parser.Parse(placeLast(parser.Model.Node, args))
	if done {
		return nil
	}
	if err != nil {
		return err
	}
	env.printPlace(command)
	g, err := openFor(ctx, env, command.Selected())
	if err != nil {
		return err
	}
	defer g.close()
	return command.Run(g)
}

// parseServe parses a valid command line of serve. It returns nil for every other command line,
// including a request for help. With parseServe the gateway starts faster, because building the
// grammar of all commands would take most of the start time.
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
		return nil // the grammar of all commands reports the error
	}
	return command
}

// The exit codes.
const (
	exitFault = 1 // an error or a refusal
	exitUsage = 2 // the command line is wrong
	exitDrift = 3 // the compared things differ

	exitSignal = 128 // plus the number of the second signal
)

// errDrift ends a command that has printed a difference between two things.
var errDrift = errors.New("it differs")

// exitCode prints an error, and returns the exit code.
func exitCode(err error, stderr io.Writer) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errDrift):
		return exitDrift
	}
	if _, logged := errors.AsType[loggedError](err); logged {
		return exitFault
	}
	fmt.Fprintln(stderr, "portcullis:", err)
	if _, usage := errors.AsType[*kong.ParseError](err); usage {
		fmt.Fprintln(stderr, "portcullis --help lists the commands, portcullis COMMAND --help the flags of one")
		return exitUsage
	}
	return exitFault
}

// osUser returns the name of the operating system's user. It is the default of --actor.
func osUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "local"
}

// self returns the command with which a person runs this program again.
func self() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/portcullis"
	}
	return connect.Shell(os.Args[0])
}
