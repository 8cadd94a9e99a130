package finding

import (
	"strconv"
	"strings"
	"sync"
)

// The words of the rules, by class. A class in capitals represents any of its words in a rule. The
// classes from SECRET on are not words: the scanner finds them by their form.
var classes = map[string]string{
	"DO": "do must should shall may will", "NOT": "not",
	"NEVER":   "never don't dont mustn't shouldn't", // and DO followed by NOT
	"TELL":    "tell mention inform notify reveal disclose alert warn",
	"MENTION": "mention reveal disclose",
	"THIS":    "this that it these those any anything what",
	"TELLING": "telling informing notifying mentioning alerting",
	"WITHOUT": "without",
	"HIDE":    "hide conceal withhold",
	"FROM":    "from",
	"USER":    "user user's users human humans person anyone anybody operator customer owner",
	"KNOW":    "know notice learn realize", "KNOWLEDGE": "knowledge awareness knowing noticing",
	"SECRETLY": "secretly covertly surreptitiously exfiltrate", "SILENTLY": "silently quietly",
	"IGNORE": "ignore disregard forget ignora ignorar ignorez ignoriere ignorieren игнорируй игнорируйте",
	"PRIOR":  "previous prior above earlier preceding your anteriores previas précédentes precedentes vorherigen bisherigen предыдущие",
	"ANY":    "all any other every each existing system original",
	"RULES":  "instructions instruction prompt prompts directives guidelines rules restrictions policies safeguards instrucciones instruções anweisungen инструкции",
	"ORDER":  "instructions instruction prompt prompts directives guidelines safeguards",
	"NOW":    "now", "ON": "on",
	"READ":    "read open cat load access fetch get print include send pass provide attach upload paste extract copy retrieve",
	"URGE":    "must first before otherwise always need needs should please required mandatory necessary important ensure",
	"CONTENT": "content contents",
	"TALK":    "conversation chat dialog dialogue", "LOG": "history transcript context",
	"WHOLE": "full entire complete whole all", "SYSTEM": "system", "PROMPT": "prompt",
	"PASS":   "include send pass provide append attach forward put insert copy",
	"BEFORE": "before prior", "USING": "using calling invoking running executing use call invoke run execute",
	"TOOLS": "tool tools function functions command commands",
	"WHEN":  "when whenever if once", "THISONE": "this", "IS": "is are", "AVAILABLE": "available present installed enabled connected loaded",
	"GOVERN":  "must always never instead before don't dont whenever also",
	"SEND":    "send sent forward forwarded redirect bcc cc deliver route email emailed upload post",
	"COVERED": "must always every secretly silently instead also",
	"DATA":    "result results output data content contents it them everything conversation history",
	"CHANGE":  "change replace set", "RECIPIENT": "recipient recipients address",
	"ASK": "ask seek wait", "CONFIRM": "confirmation permission approval consent confirm",
	"SHOUT": "always never must mandatory critical important proactively", // in capitals only
	"YOU":   "you", "MUST": "must", "ALWAYS": "always",
	"ACT": "call use invoke run execute always never first not", "USE": "use call invoke prefer", "FIRST": "first before whenever instead always",
	"SECRET": "", "OTHER": "", "ADDRESS": "", "ANYADDRESS": "",
}

// Rules are sequences of classes. A number between two classes is how many other words may be
// between them; no sequence crosses the end of a sentence. The field with names a class that the
// sentence must also contain.
var rules = []struct{ code, sequence, with string }{
	{override, "IGNORE 3 PRIOR 3 RULES", ""},
	{override, "IGNORE 3 RULES 1 PRIOR", ""},
	{override, "IGNORE 1 ANY 1 ORDER", ""},
	{override, "FROM NOW ON", ""},
	{conceal, "NEVER 6 TELL 3 USER", ""},
	{conceal, "NEVER 6 MENTION 1 THIS", ""},
	{conceal, "WITHOUT 1 TELLING 3 USER", ""},
	{conceal, "WITHOUT 1 USER 1 KNOWLEDGE", ""},
	{conceal, "HIDE THIS 4 FROM 2 USER", ""},
	{conceal, "USER NEVER 1 KNOW", ""},
	{conceal, "SECRETLY", ""},
	{conceal, "SILENTLY 1 SEND", ""},
	{secrets, "READ 6 SECRET", "URGE"},
	{secrets, "READ 6 SECRET 8 PASS", ""},
	{secrets, "CONTENT 4 SECRET", ""},
	{beforeTools, "BEFORE 2 USING 1 ANY 2 TOOLS", ""},
	{beforeTools, "BEFORE 1 ANY 1 TOOLS", ""},
	{governs, "WHEN THISONE 1 TOOLS IS AVAILABLE", ""},
	{governs, "OTHER", "GOVERN"},
	{redirect, "SEND 8 ANYADDRESS", "COVERED"},
	{redirect, "SEND 3 DATA 2 ADDRESS", ""},
	{redirect, "CHANGE 3 RECIPIENT 2 ANYADDRESS", ""},
	{unasked, "NEVER 6 ASK 5 CONFIRM", ""},
	{conversation, "PASS 4 TALK LOG", ""},
	{conversation, "PASS 2 WHOLE 1 TALK", ""},
	{conversation, "PASS 2 SYSTEM PROMPT", ""},
	{conversation, "MENTION 2 SYSTEM PROMPT", ""},
	{imperative, "SHOUT", ""},
	{imperative, "YOU MUST 1 ACT", ""},
	{imperative, "ALWAYS USE", ""},
	{imperative, "USE THISONE TOOLS FIRST", ""},
}

// phrases are rules for scripts without blanks between words.
var phrases = []struct{ code, text string }{
	{override, "忽略之前的"}, {override, "忽略以上"}, {override, "忽略先前"}, {override, "忽略所有指令"}, {override, "忽略所有之前"},
	{override, "指示を無視"}, {override, "指示は無視"},
	{conceal, "不要告诉用户"}, {conceal, "不要告知用户"}, {conceal, "不要向用户透露"}, {conceal, "请勿告知用户"},
	{conceal, "ユーザーに伝えないで"}, {conceal, "ユーザーには言わないで"}, {conceal, "ユーザーに知らせないで"},
}

// asks are names of parameters that ask for the model's instructions instead of the user's input.
var asks = []string{"system_prompt", "conversation_history", "chat_history", "message_history", "full_conversation", "chain_of_thought", "tools_list", "available_tools"}

// keyNames are parts of parameter names that ask for a key.
var keyNames = []string{"id_rsa", "id_ed25519", "ssh_key", "private_key_file", "mcp_json", "env_file_content"}

// A set of classes, one bit each.
type set uint64

// A step of a sequence is a class, and how many words may come before it.
type step struct {
	class set
	gap   int
}

type rule struct {
	code  string
	steps []step
	with  set
	plain bool // not after "never" and the like
}

// A lexicon has the rules in prepared form.
type lexicon struct {
	words map[string]set
	rules []rule
	first set // classes at the start of a sequence

	never, do, not, shout, secret, other, address, anyAddress set // classes that the scanner uses by name

	key set // not a class of a rule; it marks words that may be part of a path to keys
}

// theLexicon returns the rules. The first call prepares them.
var theLexicon = sync.OnceValue(func() *lexicon {
	l := &lexicon{words: map[string]set{}, key: 1}
	class := map[string]set{}
	next := set(2)
	for name, list := range classes {
		class[name] = next
		for _, word := range strings.Fields(list) {
			l.words[word] |= next
		}
		if next <<= 1; next == 0 {
			panic("finding: more classes than bits")
		}
	}
	for word := range keyPlaces {
		l.words[word] |= l.key
	}
	l.never, l.do, l.not, l.shout = class["NEVER"], class["DO"], class["NOT"], class["SHOUT"]
	l.secret, l.other, l.address, l.anyAddress = class["SECRET"], class["OTHER"], class["ADDRESS"], class["ANYADDRESS"]
	for _, r := range rules {
		p := rule{code: r.code, with: class[r.with], plain: r.code == secrets || r.code == conversation}
		gap := 0
		for _, word := range strings.Fields(r.sequence) {
			if n, err := strconv.Atoi(word); err == nil {
				gap = n
				continue
			}
			p.steps = append(p.steps, step{class[word], gap})
			gap = 0
		}
		l.first |= p.steps[0].class
		l.rules = append(l.rules, p)
	}
	return l
})
