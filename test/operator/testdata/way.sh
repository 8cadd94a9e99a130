# All the steps of an operator, as commands. GATE and TICKETS are two free addresses. The program
# `others` is a server and an agent. KIND is the kind of the server: url or command.
set -euo pipefail
step() { printf '\n== %s\n' "$1"; }
locked() { # checks the results of an agent that searches for a locked tool and calls it
	others search "http://$GATE/mcp" "assign a ticket" | tee found
	grep -q '"name":"tickets:assign_ticket".*"status":"pending_approval"' found
	if others call "http://$GATE/mcp" tickets:assign_ticket '{"id":1,"assignee":"kim"}' | tee said; then echo "it was called"; exit 1; fi
	grep -q 'Tool is disabled and not callable. A person must approve its definition first' said
}
open() {
	others call "http://$GATE/mcp" tickets:assign_ticket '{"id":1,"assignee":"kim"}' | tee said
	grep -qx 'ticket 1 is with kim' said
}
drifts() { # checks the exit code of approvals check, and prints its Markdown for a pull request
	code=0; portcullis approvals check --markdown drift.md || code=$?
	cat drift.md; test $code = 3
}
ready() { for _ in $(seq 100); do if others search "http://$GATE/mcp" "assign" > /dev/null 2>&1; then return; fi; sleep 0.1; done; cat log; exit 1; }
begin() { portcullis serve --addr "$GATE" $allow > log 2>&1 & gate=$!; ready; }
end() { kill $gate; wait $gate || true; }

step "a server of somebody"
echo "Assign a ticket to a person." > description
if [ "$KIND" = url ]; then
	allow= entry='"url": "http://'$TICKETS'"'
	others serve "$TICKETS" "$PWD/description" &
else
	allow=--allow-commands entry='"command": "'$(command -v others)'", "args": ["stdio", "'$PWD'/description"]'
fi
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT

step "an empty folder"
portcullis version
mkdir gate && cd gate
portcullis init
cat > config/mcp_config.json <<END
{"mcpServers": {"tickets": {$entry, "approval": "manual"}}}
END
portcullis check

step "a locked tool is found by an agent"
begin
locked

step "it is unlocked by a lock file"
portcullis approvals write --pending
cat approvals.lock.json
portcullis approvals apply
open
portcullis approvals check

step "the server changes it: it is locked, and the check shows how"
echo "Assign a ticket to a person, and tell their manager." > ../description
portcullis sync $allow
locked
drifts
grep -q 'tell their manager' drift.md
portcullis approvals write --pending
portcullis approvals apply
open

step "the same while no gateway runs"
end
echo "Assign a ticket to a person. It is mailed to them." > ../description
portcullis sync $allow
drifts
grep -q 'mailed to them' drift.md
portcullis approvals write --pending
portcullis approvals apply
portcullis approvals check
begin
open
end
