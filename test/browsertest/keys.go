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

// modifiers are those that are held while another key is pressed.
var modifiers = map[string]chromedp.Modifier{
	"Shift": chromedp.ModifierShift, "Control": chromedp.ModifierCtrl, "Alt": chromedp.ModifierAlt, "Meta": chromedp.ModifierMeta,
}

// Press presses keys in order: "j", "Enter", "Shift+Tab". Held keys count, too.
func (b *Tab) Press(names ...string) {
	b.T.Helper()
	for _, name := range names {
		parts := strings.Split(name, "+")
		key := parts[len(parts)-1]
		var all chromedp.Modifier
		for _, held := range parts[:len(parts)-1] {
			m, ok := modifiers[held]
			if !ok {
				b.T.Fatalf("%s: %q is no key to hold", name, held)
			}
			all |= m
			b.count(held)
		}
		typed, ok := keys[key]
		if !ok {
			typed = key
		}
		if len([]rune(typed)) != 1 {
			b.T.Fatalf("%q is no key", name)
		}
		b.press(key, typed, all)
	}
}

// Type types a text where the focus is. Each character counts, and Shift where it takes it.
func (b *Tab) Type(text string) {
	b.T.Helper()
	for _, r := range text {
		b.press(string(r), string(r), 0)
	}
}

// press presses one key while modifiers are held.
func (b *Tab) press(name, typed string, held chromedp.Modifier) {
	b.T.Helper()
	if k := kb.Keys[[]rune(typed)[0]]; k != nil && k.Shift {
		b.count("Shift")
	}
	b.count(name)
	events := kb.Encode([]rune(typed)[0])
	down, up := events[0], events[len(events)-1]
	// The character comes with the key, not after it: a page that takes the key keeps it from
	// being typed.
	if len(events) == 3 && held&^chromedp.ModifierShift == 0 {
		down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
	}
	b.do("press "+name, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, e := range []*input.DispatchKeyEventParams{down, up} {
			e.Modifiers |= int64(held)
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

// Presses returns the keys that were pressed since it was last asked.
func (b *Tab) Presses() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.presses
	b.presses = nil
	return out
}

// SavePresses keeps key presses as a file of lines beside the pictures, with their number.
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
