package browsertest

import (
	"context"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// keys are the names of keys that type no character.
var keys = map[string]string{
	"Enter": kb.Enter, "Tab": kb.Tab, "Escape": kb.Escape, "Backspace": kb.Backspace, "Delete": kb.Delete, "Space": " ",
	"ArrowUp": kb.ArrowUp, "ArrowDown": kb.ArrowDown, "ArrowLeft": kb.ArrowLeft, "ArrowRight": kb.ArrowRight,
	"Home": kb.Home, "End": kb.End, "PageUp": kb.PageUp, "PageDown": kb.PageDown,
}

// modifiers are the keys that a person holds down while pressing another key.
var modifiers = map[string]chromedp.Modifier{
	"Shift": chromedp.ModifierShift, "Control": chromedp.ModifierCtrl, "Alt": chromedp.ModifierAlt, "Meta": chromedp.ModifierMeta,
}

// Press presses keys in order: "j", "Enter", "Shift+Tab". [Tab.Presses] also counts the modifiers.
func (b *Tab) Press(names ...string) {
	b.T.Helper()
	for _, name := range names {
		parts := strings.Split(name, "+")
		key := parts[len(parts)-1]
		var all chromedp.Modifier
		for _, modifier := range parts[:len(parts)-1] {
			m, ok := modifiers[modifier]
			if !ok {
				b.T.Fatalf("%s: %q is not a modifier key", name, modifier)
			}
			all |= m
			b.count(modifier)
		}
		typed, ok := keys[key]
		if !ok {
			typed = key
		}
		if len([]rune(typed)) != 1 {
			b.T.Fatalf("%q is not a key", name)
		}
		b.press(key, typed, all)
	}
}

// Type types a text into the focused element. [Tab.Presses] counts each character, and each Shift
// that a character needs.
func (b *Tab) Type(text string) {
	b.T.Helper()
	for _, r := range text {
		b.press(string(r), string(r), 0)
	}
}

// press presses one key together with modifiers.
func (b *Tab) press(name, typed string, modifiers chromedp.Modifier) {
	b.T.Helper()
	if k := kb.Keys[[]rune(typed)[0]]; k != nil && k.Shift {
		b.count("Shift")
	}
	b.count(name)
	events := kb.Encode([]rune(typed)[0])
	down, up := events[0], events[len(events)-1]
	// The keydown event contains the character. If the page handles the event and prevents its
	// default action, no character is typed.
	if len(events) == 3 && modifiers&^chromedp.ModifierShift == 0 {
		down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
	}
	b.do("press "+name, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, e := range []*input.DispatchKeyEventParams{down, up} {
			e.Modifiers |= int64(modifiers)
			if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, *e); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (b *Tab) count(name string) {
	if name == " " {
		name = "Space"
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.presses = append(b.presses, name)
}

// Presses returns the keys that were pressed since the last call of Presses.
func (b *Tab) Presses() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.presses
	b.presses = nil
	return out
}

// SavePresses writes numbered key presses, and their count, to a file in the folder of pictures.
func (b *Tab) SavePresses(name string, presses []string) {
	b.T.Helper()
	b.save(name, func() []byte {
		var out strings.Builder
		for i, key := range presses {
			fmt.Fprintf(&out, "%4d  %s\n", i+1, key)
		}
		fmt.Fprintf(&out, "%d key presses\n", len(presses))
		return []byte(out.String())
	})
}
