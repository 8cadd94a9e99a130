package fleettest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// The words of the names and descriptions of made-up tools.
var (
	things = strings.Fields("account alert archive article backup board branch bucket budget calendar campaign card cart channel chart chat " +
		"cluster comment contact contract customer dashboard dataset deployment device document domain draft driver email employee event " +
		"expense feature file filter flight folder form function gateway group guest image incident index invoice issue item job journal key label layer " +
		"lead library license link list location log machine map meeting member message metric milestone model module monitor network note notification offer " +
		"order package page parcel partner patient payment permission phone photo pipeline plan playlist policy portfolio post printer process product profile project " +
		"property queue quote record region release repository report request reservation resource review role room route rule sample schedule schema search secret " +
		"section segment sensor server service session shift shipment signal site slide snapshot song stack station statement stock store stream student subscription " +
		"survey table tag task team template tenant test thread ticket topic trace track transaction transfer trip unit update user vehicle vendor version video view " +
		"visit volume voucher wallet warehouse webhook widget workflow workspace zone")
	verbs = []struct {
		words       []string
		annotations []string // one of these
	}{
		{strings.Fields("get list search read find count show compare"), []string{`{"readOnlyHint":true}`, `{"readOnlyHint":true,"openWorldHint":false}`, ""}},
		{strings.Fields("create add update rename move send start copy"), []string{`{"destructiveHint":false}`, `{"destructiveHint":false,"idempotentHint":true}`, ""}},
		{strings.Fields("delete cancel purge reset revoke stop"), []string{`{"destructiveHint":true}`, ""}},
	}
	openings  = []string{"%s one %s of the workspace.", "%s the %s that is named.", "%s a %s by its id.", "%s every %s that matches.", "%s a %s and says when it was done."}
	sentences = []string{
		"The answer is a list of objects with an id, a name and a date.", "Dates are given as YYYY-MM-DD.", "At most 100 results are returned; a cursor leads to the rest.",
		"It fails if the id is not known.", "Times are in UTC.", "The name may hold letters, digits and dashes.", "Results are sorted by the date of the last change.",
		"An empty filter means all of them.", "The owner gets a notice by mail.", "Large files are sent in parts of 5 MB.", "Only members of the team see the result.",
		"Amounts are in the currency of the account.", "Der Name darf Umlaute enthalten.", "Les accents sont acceptés.", "日本語の名前も使えます。",
		"The same request twice has the effect of one.", "Rows that are locked are left out.", "It takes up to a minute for large workspaces.",
	}
	parameters = []string{
		`"id":{"type":"string","description":"Which one."}`, `"name":{"type":"string","maxLength":80}`, `"limit":{"type":"integer","minimum":1,"maximum":100,"default":20}`,
		`"since":{"type":"string","format":"date"}`, `"order":{"enum":["asc","desc"],"default":"asc"}`, `"dry_run":{"type":"boolean","default":false}`,
		`"tags":{"type":"array","items":{"type":"string"},"maxItems":10}`, `"cursor":{"type":["string","null"]}`, `"amount":{"type":"number","exclusiveMinimum":0}`,
		`"filter":{"type":"object","properties":{"owner":{"type":"string"},"state":{"enum":["open","closed"]},"range":{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"}}}},"additionalProperties":false}`,
		`"note":{"type":"string","description":"Kept with the change."}`, `"owner":{"anyOf":[{"type":"string"},{"type":"integer"}]}`,
	}
)

// MadeUp returns a catalog that is the same in every run. The number and length of words,
// parameters and annotations are as in real tools. A few servers have many tools, and most have
// few.
func MadeUp(servers, tools int) Catalog {
	rng := rand.New(rand.NewPCG(uint64(servers), uint64(tools)))
	c := Catalog{}
	for i := range servers {
		left, rest := servers-i, tools-c.Len()
		n := max(1, rest/left)
		if left > 1 && i < servers/2 {
			n = min(2*rest/left, rest-left+1)
		}
		server := things[i%len(things)] + "-hub"
		if i >= len(things) {
			server = fmt.Sprintf("%s-%d", server, i/len(things)+1)
		}
		c[server] = madeUpTools(rng, n)
	}
	return c
}

// madeUpTools returns n tools with different names.
func madeUpTools(rng *rand.Rand, n int) []json.RawMessage {
	taken := map[string]bool{}
	var out []json.RawMessage
	for len(out) < n {
		kind := verbs[rng.IntN(len(verbs))]
		verb, thing := pick(rng, kind.words), pick(rng, things)
		name := verb + "_" + thing
		if taken[name] {
			continue
		}
		taken[name] = true
		words := []string{fmt.Sprintf(pick(rng, openings), strings.ToUpper(verb[:1])+verb[1:], thing)}
		more := rng.IntN(4)
		if rng.IntN(40) == 0 {
			more = 50 // about 500 words, like the longest descriptions of real tools
		}
		for range more {
			words = append(words, pick(rng, sentences))
		}
		out = append(out, madeUpTool(rng, name, strings.Join(words, " "), pick(rng, kind.annotations)))
	}
	return out
}

func madeUpTool(rng *rand.Rand, name, description, annotations string) json.RawMessage {
	some := rng.Perm(len(parameters))[:1+rng.IntN(5)]
	var properties []string
	for _, i := range some {
		properties = append(properties, parameters[i])
	}
	required, _, _ := strings.Cut(properties[0], ":")
	b := fmt.Appendf(nil, `{"name":%s,"description":%s,"inputSchema":{"type":"object","properties":{%s},"required":[%s]}`,
		rawjson.Quote(name), rawjson.Quote(description), strings.Join(properties, ","), required)
	if rng.IntN(4) == 0 {
		b = fmt.Appendf(b, `,"title":%s`, rawjson.Quote(strings.ReplaceAll(name, "_", " ")))
	}
	if rng.IntN(5) == 0 {
		b = append(b, `,"outputSchema":{"type":"object","properties":{"id":{"type":"string"},"ok":{"type":"boolean"}}}`...)
	}
	if annotations != "" {
		b = fmt.Appendf(b, `,"annotations":%s`, annotations)
	}
	return append(b, '}')
}

func pick[E any](rng *rand.Rand, list []E) E { return list[rng.IntN(len(list))] }
