#!/bin/sh
# Bare requests: sh curl.sh [URL]
set -eu
url=${1:-http://127.0.0.1:8484}

# Who answered, how sure, why and at what price is in the headers and in the `edgewise` object.
curl --silent --show-error --fail --include "$url/v1/chat/completions" \
  --header 'content-type: application/json' \
  --data '{"model": "auto", "max_tokens": 40,
           "messages": [{"role": "user", "content": "What is the capital of France?"}]}'
echo

# A stream, of a request that never leaves the device.
curl --silent --show-error --fail --no-buffer "$url/v1/chat/completions" \
  --header 'content-type: application/json' --header 'x-edgewise-privacy: private' \
  --data '{"model": "auto", "max_tokens": 40, "stream": true,
           "messages": [{"role": "user", "content": "What is the capital of France?"}]}'

curl --silent --show-error --fail "$url/v1/models"
echo
