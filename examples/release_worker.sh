#!/usr/bin/env bash
# A worker in bash: claims the nodes of the graph `release` (examples/release.yaml) and runs a command for each.
#
#   examples/release_worker.sh
#
# It needs bash 5, curl and jq (apt install curl jq), and nothing of pyoco: it uses HTTP only. It renews its lease while a
# command runs, stops the command when the execution is cancelled, repeats requests to a restarting gateway with the
# same Idempotency-Key, and returns its node when it is stopped (SIGTERM, Ctrl-C).
#
# Settings, all from the environment:
#   PYOCO_SERVER   http://127.0.0.1:8000   the gateway
#   PYOCO_API_KEY                          with access control: a key with the scopes nodes:work and runs:read
#   GRAPH_ID       release                 the graph to claim nodes of
#   WORKER_ID      <host>-<pid>            the name of this worker
#   STEPS_DIR                              a folder with an executable per node; nodes without one use `step` below
#   LEASE_SEC      60                      the lease; renewed every third of it
#   WAIT_SEC       20                      how long a claim waits for a node (30 at most)
#
# A step gets the claim (input, params, outputs of its predecessors) as JSON on standard input. Its standard output becomes
# the node's output, its standard error goes to the terminal. A number from 0 to 100 in the file $PROGRESS is the node's
# progress. The exit status decides between success and failure.
set -u -o pipefail

SERVER=${PYOCO_SERVER:-http://127.0.0.1:8000}
GRAPH_ID=${GRAPH_ID:-release}
WORKER_ID=${WORKER_ID:-$(uname -n)-$$}
STEPS_DIR=${STEPS_DIR:-}
LEASE_SEC=${LEASE_SEC:-60}
WAIT_SEC=${WAIT_SEC:-20}
RETRY_SEC=1
KILL_AFTER_SEC=10       # time for a command to clean up when it is stopped
MAX_OUTPUT_BYTES=16384  # 64 KiB are accepted; as JSON a text may grow

# The command of a node without an executable in STEPS_DIR: replace it by your own.
step() {
  case $1 in
    build | test | lint | deploy)
      local percent
      for percent in 20 40 60 80 100; do
        sleep 0.5
        echo "$percent" >"$PROGRESS"
      done
      echo "$1 done"
      ;;
    *)
      echo "no command for the node $1" >&2
      return 64
      ;;
  esac
}

say() { printf '%(%H:%M:%S)T %s\n' -1 "$*" >&2; }

die() {
  say "$*"
  exit 1
}

# --- HTTP -------------------------------------------------------------------------------------------------------------

# request METHOD PATH KEY BODY: one try. The status is in $STATUS (000: no response), the body in $ANSWER.
request() {
  local answer=$WORK/answer.$BASHPID status=$WORK/status.$BASHPID
  # In the background, because bash heeds a signal only between two commands, and while it waits for one of these.
  curl --silent --show-error --request "$1" "$SERVER$2" --header @"$WORK/headers" \
    --header 'Content-Type: application/json' --header "Idempotency-Key: $3" --data-binary @- \
    --connect-timeout 5 --max-time "$((WAIT_SEC + 15))" --output "$answer" --write-out '%{http_code}' \
    <<<"$4" >"$status" 2>"$WORK/trouble.$BASHPID" &
  CALL=$!
  while kill -0 "$CALL" 2>/dev/null; do wait "$CALL"; done
  CALL=
  STATUS=$(<"$status")
  ANSWER=
  case $STATUS in
    2?? | 4??) if [[ -e $answer ]]; then ANSWER=$(tr -d '\0' <"$answer"); fi ;;
    *) [[ -n $STOPPING ]] || say "no answer to $1 $2: ${STATUS:-000} $(<"$WORK/trouble.$BASHPID")" ;;
  esac
  rm -f "$answer"
}

# send METHOD PATH BODY: repeats the request with one key until there is a response, so that it takes effect once. Gives up
# only when the worker stops and the gateway does not respond.
send() {
  local key
  key=$(new_key)
  while true; do
    request "$1" "$2" "$key" "$3"
    case $STATUS in
      2?? | 400 | 401 | 403 | 404 | 409 | 413 | 422) return 0 ;;
    esac
    [[ -z $STOPPING ]] || return 1
    pause "$RETRY_SEC"
  done
}

new_key() { cat /proc/sys/kernel/random/uuid 2>/dev/null || echo "$WORKER_ID-$BASHPID-$EPOCHREALTIME-$RANDOM"; }

# A sleep that ends with the first signal.
pause() {
  sleep "$1" &
  CALL=$!
  wait "$CALL"
  kill "$CALL" 2>/dev/null
  CALL=
}

refusal() { jq -r '.error | "\(.code): \(.message)"' <<<"$ANSWER" 2>/dev/null || echo "HTTP $STATUS"; }

# --- one node ---------------------------------------------------------------------------------------------------------

# The command of a node, in a process group of its own, so that all that it starts can be stopped.
run_step() {
  export PROGRESS=$WORK/progress
  if [[ -n $STEPS_DIR && -x $STEPS_DIR/$NODE_ID ]]; then
    exec "$STEPS_DIR/$NODE_ID" <"$WORK/claim" >"$WORK/output"
  fi
  step "$NODE_ID" <"$WORK/claim" >"$WORK/output"
}

# stop_step WHY: ask the command to end, and make it end if it does not.
stop_step() {
  echo "$1" >>"$WORK/why"
  kill -TERM -- "-$STEP" 2>/dev/null && sleep "$KILL_AFTER_SEC" && kill -KILL -- "-$STEP" 2>/dev/null
}

# Says every third of the lease how far the command is. A refusal means that the node is no longer ours, or is to stop.
renew() {
  local percent body
  while sleep "$((LEASE_SEC < 3 ? 1 : LEASE_SEC / 3))"; do
    percent=$(tail -n 1 "$WORK/progress" 2>/dev/null)
    [[ $percent =~ ^([0-9]|[1-9][0-9]|100)$ ]] || percent=null
    body="{\"progress\":$percent,\"attempt\":$ATTEMPT,\"leaseSec\":$LEASE_SEC}"
    send POST "$NODE/progress" "$body" || continue
    if [[ $STATUS == 4?? ]]; then
      say "$NODE_ID is to stop: $(refusal)"
      if [[ $(jq -r .error.details.guard <<<"$ANSWER") == CANCEL_REQUESTED ]]; then stop_step canceled; else stop_step lost; fi
      return
    fi
  done
}

# Listens to the execution's events and stops the command when a cancel is among them.
listen() {
  local line last=
  while true; do
    while IFS= read -r line; do
      line=${line%$'\r'}
      case $line in
        'id: '*) last=${line#id: } ;;
        'event: EXECUTION_CANCEL_REQUESTED')
          say "the execution is cancelled: $NODE_ID is to stop"
          stop_step canceled
          return
          ;;
      esac
    done < <(curl --silent --no-buffer "$SERVER/executions/$EXECUTION_ID/events" --header @"$WORK/headers" \
      --header 'Accept: text/event-stream' --header "Last-Event-ID: $last" \
      --connect-timeout 5 --speed-limit 1 --speed-time 60)
    sleep "$RETRY_SEC"
  done
}

end_group() { # ends a process group and waits until its leader has ended
  [[ -n $1 ]] || return 0
  kill -TERM -- "-$1" 2>/dev/null
  wait "$1" 2>/dev/null
}

work_on_node() {
  local code why group
  rm -f "$WORK/progress" "$WORK/why" "$WORK/output"
  say "$NODE_ID begins (execution $EXECUTION_ID, attempt $ATTEMPT)"
  set -m # from here on every background job has a process group of its own
  run_step &
  STEP=$!
  renew &
  RENEWAL=$!
  listen &
  LISTENER=$!
  set +m
  while true; do
    if [[ -n $STOPPING && -z $STOPPER ]]; then
      set -m
      stop_step stopping &
      STOPPER=$!
      set +m
    fi
    wait "$STEP" 2>/dev/null
    code=$?
    # Still there: it was the wait that ended, by a signal.
    kill -0 "$STEP" 2>/dev/null || break
  done
  if ((code > 128)); then # a signal again, or the command's own end: then there is nothing more to wait for
    wait "$STEP" 2>/dev/null
    group=$?
    ((group == 127)) || code=$group
  fi
  STEP=
  for group in "$LISTENER" "$RENEWAL" "$STOPPER"; do end_group "$group"; done
  LISTENER='' RENEWAL='' STOPPER=''
  why=$(cat "$WORK/why" 2>/dev/null)
  report_result "$code" "$why"
}

report_result() {
  local error="{\"error\":{\"code\":\"%s\",\"message\":\"%s\"},\"attempt\":$ATTEMPT}" body
  case $2 in
    *canceled*)
      # Rejected, because the execution is cancelled, but it confirms that the work on this node has stopped.
      # shellcheck disable=SC2059 # the format is ours
      send POST "$NODE/fail" "$(printf "$error" CANCELED "the command was stopped")"
      ;;
    *lost*) return ;;
    *stopping*)
      # A short lease returns the node: the next worker claims it within a second.
      send POST "$NODE/progress" "{\"message\":\"given back by $WORKER_ID\",\"attempt\":$ATTEMPT,\"leaseSec\":1}"
      say "$NODE_ID is given back"
      return
      ;;
    *)
      if [[ $1 == 0 ]]; then
        body=$(head -c "$MAX_OUTPUT_BYTES" "$WORK/output" | jq -Rsc --argjson attempt "$ATTEMPT" \
          '{output: {stdout: .}, attempt: $attempt}')
        send POST "$NODE/success" "$body"
      else
        # shellcheck disable=SC2059 # the format is ours
        send POST "$NODE/fail" "$(printf "$error" "EXIT_$1" "the command ended with $1")"
      fi
      ;;
  esac
  case $STATUS in
    2??) say "$NODE_ID ended with $1" ;;
    *) say "$NODE_ID ended with $1: $(refusal)" ;;
  esac
}

# --- the worker -------------------------------------------------------------------------------------------------------

claim() {
  send POST '/executions:claim' "$CLAIM" || return 1
  case $STATUS in
    200) ;;
    204) return 1 ;;
    409) say "$(refusal)" && pause "$RETRY_SEC" && return 1 ;;
    *) die "no nodes for this worker: $(refusal)" ;;
  esac
  printf '%s' "$ANSWER" >"$WORK/claim"
  if ! { EXECUTION_ID=$(jq -er .executionId "$WORK/claim") && NODE_ID=$(jq -er .nodeId "$WORK/claim") &&
    ATTEMPT=$(jq -er .attempt "$WORK/claim") && NODE=$(jq -er '.nodeId | @uri' "$WORK/claim"); }; then
    die "a claim that cannot be read: $ANSWER"
  fi
  NODE=/executions/$EXECUTION_ID/nodes/$NODE
}

stop() {
  # A background job that is signalled right after its start still has the traps of the worker.
  [[ $BASHPID == "$$" ]] || exit 143
  STOPPING=yes
  [[ -z $CALL ]] || kill "$CALL" 2>/dev/null
}

clean_up() {
  local group
  [[ $BASHPID == "$$" ]] || exit
  trap - EXIT
  for group in "$STEP" "$LISTENER" "$RENEWAL" "$STOPPER"; do [[ -z $group ]] || kill -TERM -- "-$group" 2>/dev/null; done
  rm -rf "$WORK"
}

for tool in curl jq; do
  command -v "$tool" >/dev/null || {
    echo "release_worker.sh needs $tool: apt install curl jq" >&2
    exit 1
  }
done
if ((BASH_VERSINFO[0] < 5)); then
  echo 'release_worker.sh needs bash 5 or later' >&2
  exit 1
fi

for number in "$LEASE_SEC" "$WAIT_SEC"; do
  [[ $number =~ ^[0-9]+$ ]] || die "LEASE_SEC and WAIT_SEC must be whole numbers, not $number"
done

STOPPING='' CALL='' STEP='' LISTENER='' RENEWAL='' STOPPER=''
WORK=$(mktemp -d) || exit 1
trap clean_up EXIT
trap stop TERM INT
# In a private file: command lines are visible to all users of the machine.
(umask 077 && printf '%s\n' "User-Agent: release_worker.sh" ${PYOCO_API_KEY:+"X-API-Key: $PYOCO_API_KEY"} >"$WORK/headers")
CLAIM=$(jq -nc --arg graph "$GRAPH_ID" --arg worker "$WORKER_ID" --argjson wait "$WAIT_SEC" --argjson lease "$LEASE_SEC" \
  '{graphIds: [$graph], workerId: $worker, waitSec: $wait, leaseSec: $lease}')

say "$WORKER_ID takes nodes of $GRAPH_ID at $SERVER"
while [[ -z $STOPPING ]]; do
  if claim; then work_on_node; fi
done
say "$WORKER_ID ends"
