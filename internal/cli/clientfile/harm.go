package clientfile

import (
	"slices"
	"strings"
)

const (
	runsCode  = "makes a program run code that its command does not name"
	otherCode = "chooses where a program or its packages come from"
	redirects = "sends the program's traffic elsewhere, or weakens its encryption"
)

// harm returns the possible harm of a variable in a program's environment, or "" if the variable
// only configures the program. It checks the names that loaders, shells and runtimes read, and
// ignores the case of letters.
func harm(name string) string {
	name = strings.ToUpper(name)
	begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	switch {
	case slices.ContainsFunc(codePrefixes, begins), slices.Contains(codeNames, name):
		return runsCode
	case slices.ContainsFunc(sourcePrefixes, begins), slices.Contains(sourceNames, name):
		return otherCode
	case slices.Contains(trafficNames, name):
		return redirects
	}
	return ""
}

var (
	// codePrefixes begin with the prefixes of the dynamic loaders of Linux and macOS.
	codePrefixes = strings.Fields("LD_ DYLD_ BASH_FUNC_ GIT_CONFIG PERL5 LUA_INIT CORECLR_ COR_")

	// codeNames are variables of loaders, TLS modules, shells, language runtimes, and programs that
	// start other programs.
	codeNames = strings.Fields(`
		LIBPATH SHLIB_PATH GCONV_PATH GLIBC_TUNABLES GTK_MODULES QT_PLUGIN_PATH
		OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES

		BASH_ENV ENV SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND IFS ZDOTDIR SHELL COMSPEC

		GIT_SSH GIT_SSH_COMMAND GIT_PROXY_COMMAND GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR
		GIT_SEQUENCE_EDITOR GIT_ASKPASS GIT_EXEC_PATH GIT_TEMPLATE_DIR SSH_ASKPASS
		EDITOR VISUAL PAGER MANPAGER BROWSER LESSOPEN LESSCLOSE

		NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE ELECTRON_RUN_AS_NODE BUN_OPTIONS
		BUN_INSPECT_PRELOAD
		PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PYTHONEXECUTABLE PYTHONBREAKPOINT
		PYTHONWARNINGS PYTHONINSPECT PYTHONPLATLIBDIR PYTHONPYCACHEPREFIX
		PERLLIB RUBYOPT RUBYLIB RUBYSHELL BUNDLE_GEMFILE GEM_PATH GEM_HOME
		JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_OPTS CLASSPATH JAVA_HOME MAVEN_OPTS
		DOTNET_STARTUP_HOOKS DOTNET_ADDITIONAL_DEPS DOTNET_SHARED_STORE
		PHPRC PHP_INI_SCAN_DIR LUA_PATH LUA_CPATH
		R_PROFILE R_PROFILE_USER R_ENVIRON R_ENVIRON_USER
		ERL_FLAGS ERL_AFLAGS ERL_ZFLAGS JULIA_LOAD_PATH RUSTC_WRAPPER GOFLAGS`)

	sourcePrefixes = strings.Fields("NPM_CONFIG_ PIP_ UV_")
	sourceNames    = strings.Fields(`
		PATH PATHEXT PIPX_DEFAULT_PYTHON COREPACK_NPM_REGISTRY YARN_RC_FILENAME YARN_REGISTRY
		GOPROXY GOTOOLCHAIN DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG
		CONTAINER_HOST CONTAINERS_CONF`)

	trafficNames = strings.Fields(`
		HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY FTP_PROXY RES_OPTIONS LOCALDOMAIN HOSTALIASES
		SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
		AWS_CA_BUNDLE GIT_SSL_CAINFO GIT_SSL_CAPATH GIT_SSL_NO_VERIFY
		NODE_TLS_REJECT_UNAUTHORIZED PYTHONHTTPSVERIFY SSLKEYLOGFILE`)
)
