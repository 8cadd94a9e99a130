package signin

import (
	"regexp"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// browsers are names by the part of a user agent that tells them, those first that name others too.
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

// systems are names by what user agents call them, those first that name others too.
var systems = []struct{ mark, name string }{
	{"iPhone", "iOS"}, {"iPad", "iPadOS"}, {"Android", "Android"}, {"CrOS", "ChromeOS"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"Linux", "Linux"},
}

// maxName is how many characters are shown of a browser that is not known.
const maxName = 40

// BrowserName returns what people call the browser of s, such as "Firefox 145 on Linux": what it calls
// itself, which it may make up, as far as that is known, or else how that begins. "": it says nothing.
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
