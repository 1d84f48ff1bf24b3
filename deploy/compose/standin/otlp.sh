#!/bin/sh
# Answers one OTLP request over HTTP.
read -r request
length=0
while read -r name value && [ -n "$(echo "$name" | tr -d '\r')" ]; do
  case $name in [Cc]ontent-[Ll]ength:) length=$(echo "$value" | tr -d '\r') ;; esac
done
head -c "$length" >/dev/null
echo "$request" | tr -d '\r' >> /tmp/requests
printf 'HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
