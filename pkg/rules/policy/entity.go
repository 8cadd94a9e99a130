package policy

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/cedar-policy/cedar-go"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// The entity types of schema.cedarschema.
const (
	agentType    = cedar.EntityType("Agent")
	toolType     = cedar.EntityType("Tool")
	promptType   = cedar.EntityType("Prompt")
	resourceType = cedar.EntityType("Resource")
	actionType   = cedar.EntityType("Action")
)

// typeOf returns the Cedar type of the items of kind k, and the action of a request for such an
// item.
func typeOf(k tool.Kind) (t cedar.EntityType, action cedar.EntityUID) {
	name := cedar.String("call")
	switch t = toolType; k {
	case tool.Prompt:
		t, name = promptType, "get"
	case tool.Resource:
		t, name = resourceType, "read"
	}
	return t, cedar.NewEntityUID(actionType, name)
}

// entities are the two entities of a verdict: the agent and the item.
type entities struct {
	agent, tool cedar.Entity
}

// Get implements Cedar's entity store.
func (e *entities) Get(uid cedar.EntityUID) (cedar.Entity, bool) {
	switch uid {
	case e.agent.UID:
		return e.agent, true
	case e.tool.UID:
		return e.tool, true
	}
	return cedar.Entity{}, false
}

// agentEntity maps the agent's claims to attributes. The attributes id and kind are always the ID
// and Way that the gateway verified, even if a claim has such a name.
func agentEntity(agent identity.Agent) cedar.Entity {
	attrs := cedar.RecordMap{}
	for name, claim := range agent.Claims {
		if v := value(claim); v != nil {
			attrs[cedar.String(name)] = v
		}
	}
	attrs["id"], attrs["kind"] = cedar.String(agent.ID), cedar.String(agent.Way)
	return cedar.Entity{
		UID:        cedar.NewEntityUID(agentType, cedar.String(agent.ID)),
		Attributes: cedar.NewRecord(attrs),
	}
}

// toolEntity maps a tool's effective hints to attributes. A missing hint has MCP's default, which
// is the riskier value. It sets only the attributes that are keys of reads, the attributes that
// the rules use, because making an attribute costs more than evaluating a rule. A nil reads means
// all attributes.
func toolEntity(t Tool, reads map[cedar.String]bool) cedar.Entity {
	attrs := cedar.RecordMap{}
	set := func(name cedar.String, v cedar.Value) {
		if reads == nil || reads[name] {
			attrs[name] = v
		}
	}
	readOnly := is(t.Annotations.ReadOnlyHint, false)
	entityType, _ := typeOf(t.ID.Kind)
	set("server", cedar.String(t.ID.Server))
	set("name", cedar.String(t.ID.Name))
	set("tier", cedar.String(t.Tier.String()))
	set("readOnly", cedar.Boolean(readOnly))
	set("destructive", cedar.Boolean(is(t.Annotations.DestructiveHint, !readOnly)))
	set("idempotent", cedar.Boolean(is(t.Annotations.IdempotentHint, false)))
	set("openWorld", cedar.Boolean(is(t.Annotations.OpenWorldHint, true)))
	return cedar.Entity{
		UID:        cedar.NewEntityUID(entityType, cedar.String(t.ID.String())),
		Attributes: cedar.NewRecord(attrs),
	}
}

func is(hint *bool, unsaid bool) bool {
	if hint == nil {
		return unsaid
	}
	return *hint
}

// value maps a JSON value to a Cedar value, and null to nil. A number becomes a long, a decimal, or
// a string if neither type can hold it. A claim that exists must never look absent, because a rule
// that tests for the claim with "has" would then not apply.
func value(v any) cedar.Value {
	switch v := v.(type) {
	case nil:
		return nil
	case bool:
		return cedar.Boolean(v)
	case string:
		return cedar.String(v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return cedar.Long(n)
		}
		if f, err := v.Float64(); err == nil {
			return number(f)
		}
		return cedar.String(v)
	case float64:
		return number(v)
	case []any:
		return set(reflect.ValueOf(v))
	case map[string]any:
		attrs := cedar.RecordMap{}
		for name, member := range v {
			if m := value(member); m != nil {
				attrs[cedar.String(name)] = m
			}
		}
		return cedar.NewRecord(attrs)
	}
	// A token decoder or a test may pass Go types that encoding/json does not produce.
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return cedar.Long(r.Int())
	case reflect.Slice, reflect.Array:
		return set(r)
	}
	return cedar.String(fmt.Sprint(v))
}

func number(f float64) cedar.Value {
	switch whole := f == math.Trunc(f); {
	case whole && math.Abs(f) <= 1<<53:
		return cedar.Long(f)
	case !whole && math.Abs(f) < 1<<49: // false for NaN and Inf; the largest decimal is near 2^49.7
		if d, err := cedar.NewDecimalFromFloat(f); err == nil {
			return d
		}
	}
	return cedar.String(strconv.FormatFloat(f, 'g', -1, 64))
}

func set(list reflect.Value) cedar.Value {
	elems := []cedar.Value{}
	for i := range list.Len() {
		if e := value(list.Index(i).Interface()); e != nil {
			elems = append(elems, e)
		}
	}
	return cedar.NewSet(elems...)
}
