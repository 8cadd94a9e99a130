package signin

import (
	"regexp"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// browsers are the names of browsers by a part of the user agent. A browser whose user agent
// contains the mark of another browser comes first.
var browsers = []struct {
	mark *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`Edg(?:e|A|iOS)?/(\d+)`), "Edge"},
	{regexp.MustCompile(`(?:OPR|OPT)/(\d+)`), "Opera"},
	{regexp.MustCompile(`SamsungBrowser/(\d+)`), "Samsung Internet"},
	{regexp.MustCompile(`(?:Firefox|FxiOS)/(\d+)`), "Firefox"},
	{regexp.MustCompile(`(?:HeadlessChrome|Chromium|Chrome|CriOS)/(\d+)`), "Chrome"},
	{regexp.MustCompile(`Version/(\d+)\S* (?:Mobile/\S+ )?Safari/`), "Safari"},
}

// systems are the names of systems by a part of the user agent. A system whose user agent contains
// the mark of another system comes first.
var systems = []struct{ mark, name string }{
	{"iPhone", "iOS"}, {"iPad", "iPadOS"}, {"Android", "Android"}, {"CrOS", "ChromeOS"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"Linux", "Linux"},
}

// maxName limits the characters that BrowserName returns of an unknown browser's user agent.
const maxName = 40

// BrowserName returns a name for the browser of s, such as "Firefox 145 on Linux". For an unknown
// browser it returns the start of the user agent, and "" if there is none. The browser chooses its
// user agent, so the name may be false.
func (s Session) BrowserName() string {
	name := ""
	for _, b := range browsers {
		if m := b.mark.FindStringSubmatch(s.Browser); m != nil {
			name = b.name + " " + m[1]
			break
		}
	}
	if name == "" {
		return text.Clip(s.Browser, maxName)
	}
	for _, system := range systems {
		if strings.Contains(s.Browser, system.mark) {
			return name + " on " + system.name
		}
	}
	return name
}
