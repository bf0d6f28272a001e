from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView
from django.http import HttpResponse
from django.urls import path


@login_required(login_url="/login")
def home(request):
    return HttpResponse(f"<title>Django in a sandbox</title><h1>Hello {request.user.username}</h1>")


urlpatterns = [
    path("", home),
    path("login", LoginView.as_view(template_name="login.html")),
]
