# SPDX-License-Identifier: Apache-2.0
# nginx_server.sh FOLDER PORT DOCUMENTS
# nginx on PORT of the loopback, in the foreground, with all it writes below FOLDER. As root it reads DOCUMENTS as root.
set -eu
PATH=$PATH:/usr/sbin
{
  if [ "$(id -u)" -eq 0 ]; then echo "user root;"; fi
  cat <<END
daemon off; worker_processes 1; pid $1/pid; error_log stderr;
events { worker_connections 256; }
http {
  access_log off; types { text/plain txt; } gzip on; gzip_types text/plain; keepalive_requests 1000000;
  client_body_temp_path $1/body; proxy_temp_path $1/proxy; fastcgi_temp_path $1/fastcgi;
  uwsgi_temp_path $1/uwsgi; scgi_temp_path $1/scgi;
  server { listen 127.0.0.1:$2; root $3; }
}
END
} >"$1/nginx.conf"
exec nginx -e stderr -c "$1/nginx.conf"
