package secret

import (
	"regexp"
	"strings"
)

// InArgs returns the texts in each argument of a command line that look like secrets: values of
// flags and variables, headers, and the same texts inside an argument that is a script. It does not
// look into URLs.
func InArgs(args []string) [][]string {
	found := make([][]string, len(args))
	flag := "" // the previous word, if it is a flag whose value follows
	for i, arg := range args {
		name, value, assigned := strings.Cut(arg, "=")
		isKey := Looks(flag, "x") && looksKey(strings.TrimLeft(arg, "-"))
		isFlag := strings.HasPrefix(arg, "-") && !isKey
		switch {
		case isFlag && assigned:
			flag, found[i] = "", inWord(name, value)
		case isFlag:
			if flag = arg; len(arg) > 2 && arg[1] != '-' && looksKey(arg[2:]) {
				found[i] = []string{arg[2:]}
			}
		case len(arg) > 1 && strings.HasSuffix(arg, ":"): // of a header in a script
			flag = arg[:len(arg)-1]
		case flag != "" && flag[0] != '-' && SchemeLen(arg+" ") > 0: // the token after "Bearer"
		default:
			flag, found[i] = "", inWord(flag, arg)
		}
	}
	return found
}

// maxPairs is the most names in one word: --env=TOKEN=value has two.
const maxPairs = 3

// inWord returns the texts that look like secrets in a word that follows a flag or a name.
func inWord(name, word string) []string {
	value := word
	for range maxPairs {
		if Looks(name, value) {
			return []string{value[SchemeLen(value):]}
		}
		next, rest, ok := pair(name, value)
		if !ok {
			break
		}
		name, value = next, rest
	}
	if !strings.ContainsAny(word, " \t\n") {
		return nil
	}
	var all []string
	for _, found := range InArgs(strings.Fields(quotes.Replace(word))) {
		for _, text := range found {
			if !strings.HasPrefix(text, "$") { // a shell replaces $NAME
				all = append(all, text)
			}
		}
	}
	return all
}

var (
	quotes   = strings.NewReplacer(`"`, "", `'`, "")
	assigned = regexp.MustCompile(`^([A-Za-z0-9_.-]+)=((?s:.*))$`)
	header   = regexp.MustCompile(`^([A-Za-z0-9_-]+):[ \t]+((?s:.*))$`)
	tight    = regexp.MustCompile(`^([A-Za-z0-9_-]+):((?s:.*))$`)
)

// pair splits NAME=VALUE or a header.
func pair(flag, word string) (name, value string, ok bool) {
	forms := []*regexp.Regexp{assigned, header}
	if flag == "-H" || flag == "--header" || flag == "--headers" {
		forms = append(forms, tight)
	}
	for _, form := range forms {
		if m := form.FindStringSubmatch(word); m != nil {
			return m[1], m[2], true
		}
	}
	return "", "", false
}
