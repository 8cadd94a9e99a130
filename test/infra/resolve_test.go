package infra

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A deployment is the template with values for its parameters.
type deployment struct {
	t *testing.T
	template
	values     map[string]string
	attributes map[string]string // attributes of resources that the template uses
}

// deployed returns the template with values that override the defaults of its parameters.
func (x template) deployed(t *testing.T, values map[string]string) deployment {
	t.Helper()
	d := deployment{t, x, map[string]string{"AWS::NoValue": ""}, map[string]string{
		"Api.ApiEndpoint": "https://api", "McpFunctionUrl.FunctionUrl": "https://function/",
		"FanOut.Outputs.WorkUrl": "https://sqs/work", "FanOut.Outputs.AssembleUrl": "https://sqs/assemble.fifo",
	}}
	for name, p := range x.Parameters {
		d.values[name] = fmt.Sprint(p.Default)
	}
	for name, value := range values {
		if _, known := x.Parameters[name]; !known {
			t.Fatalf("no parameter %s", name)
		}
		d.values[name] = value
	}
	return d
}

// has reports whether the deployment contains the resource.
func (d deployment) has(name string) bool {
	d.t.Helper()
	r, ok := d.Resources[name]
	if !ok {
		d.t.Fatalf("no resource %s", name)
	}
	return r.Condition == "" || d.holds(map[string]any{"Condition": r.Condition})
}

// holds evaluates a condition.
func (d deployment) holds(v any) bool {
	d.t.Helper()
	for name, arg := range v.(map[string]any) {
		parts, _ := arg.([]any)
		switch name {
		case "Condition":
			c, ok := d.Conditions[arg.(string)]
			if !ok {
				d.t.Fatalf("no condition %v", arg)
			}
			return d.holds(c)
		case "Fn::Equals":
			return d.text(parts[0]) == d.text(parts[1])
		case "Fn::Not":
			return !d.holds(parts[0])
		case "Fn::And":
			return !slices.ContainsFunc(parts, func(p any) bool { return !d.holds(p) })
		case "Fn::Or":
			return slices.ContainsFunc(parts, d.holds)
		}
	}
	d.t.Fatalf("unknown condition %v", v)
	return false
}

var hole = regexp.MustCompile(`\$\{([^}]+)\}`)

// text evaluates a value.
func (d deployment) text(v any) string {
	d.t.Helper()
	m, ok := v.(map[string]any)
	if !ok {
		if v == nil {
			return ""
		}
		return fmt.Sprint(v)
	}
	for name, arg := range m {
		parts, _ := arg.([]any)
		switch name {
		case "Ref":
			return d.lookup(arg.(string), nil)
		case "Fn::GetAtt":
			return d.lookup(text(map[string]any{name: arg}), nil)
		case "Fn::If":
			if d.holds(map[string]any{"Condition": parts[0]}) {
				return d.text(parts[1])
			}
			return d.text(parts[2])
		case "Fn::Join":
			var texts []string
			for _, p := range parts[1].([]any) {
				texts = append(texts, d.text(p))
			}
			return strings.Join(texts, parts[0].(string))
		case "Fn::Select": // of a Split
			split := parts[1].(map[string]any)["Fn::Split"].([]any)
			return strings.Split(d.text(split[1]), split[0].(string))[int(parts[0].(float64))]
		case "Fn::Sub":
			local := map[string]any{}
			if parts != nil {
				arg, local = parts[0], parts[1].(map[string]any)
			}
			return hole.ReplaceAllStringFunc(arg.(string), func(h string) string { return d.lookup(h[2:len(h)-1], local) })
		}
	}
	d.t.Fatalf("unknown value %v", v)
	return ""
}

// lookup returns the value of a name. The test fails if the name is not defined.
func (d deployment) lookup(name string, local map[string]any) string {
	d.t.Helper()
	if v, ok := local[name]; ok {
		return d.text(v)
	}
	if v, ok := d.values[name]; ok {
		return v
	}
	resource, _, _ := strings.Cut(name, ".")
	if !strings.HasPrefix(name, "AWS::") && !d.has(resource) {
		d.t.Errorf("the template uses %s, which does not exist", name)
	}
	if v, ok := d.attributes[name]; ok {
		return v
	}
	return name
}

// needs returns the resources that a value names, in all branches of its conditions.
func (x template) needs(v any) map[string]bool {
	out := map[string]bool{}
	add := func(name string) {
		name, _, _ = strings.Cut(name, ".")
		if _, ok := x.Resources[name]; ok {
			out[name] = true
		}
	}
	switch v := v.(type) {
	case string:
		for _, h := range hole.FindAllStringSubmatch(v, -1) {
			add(h[1])
		}
	case []any:
		for _, e := range v {
			maps.Copy(out, x.needs(e))
		}
	case map[string]any:
		for name, arg := range v {
			if name == "Ref" || name == "Fn::GetAtt" {
				add(text(map[string]any{name: arg}))
			}
			maps.Copy(out, x.needs(arg))
		}
	}
	return out
}
